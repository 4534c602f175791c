"""lighttpd: one process that is an event loop."""

from sojourn.systems.configured import Configured

LIGHTTPD = Configured(
    name="lighttpd",
    package="lighttpd",
    arguments=("-D", "-f", "$configuration"),
    version_option="-v",
    access_log_off="",
    access_log_on='server.modules += ("mod_accesslog")\naccesslog.filename = "$work/access.log"',
)
