"""h2o: one process, one event loop per thread, of which it gets one."""

from sojourn.systems.configured import Configured

H2O = Configured(
    name="h2o",
    package="h2o",
    arguments=("--mode", "worker", "--conf", "$configuration"),
    version_option="--version",
    access_log_off="",
    access_log_on="access-log: $work/access.log",
    user="user: $login",
    secure="ssl: {certificate-file: $certificate, key-file: $key}",
)
