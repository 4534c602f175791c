"""nginx: a master, and one worker that is an event loop."""

from sojourn.systems.configured import Configured

NGINX = Configured(
    name="nginx",
    package="nginx-light",
    arguments=("-p", "$work", "-c", "$configuration", "-e", "$work/error.log"),
    version_option="-v",
    access_log_off="access_log off;",
    access_log_on="access_log $work/access.log combined buffer=64k flush=1s;",
    user="user $login;",
    secure="ssl_certificate $certificate; ssl_certificate_key $key;",
    secure_listen=" ssl http2",
)
