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
    # Before 1.23.4 TLS 1.3 was not the default, and sessions of TLS 1.2 are resumed without a key exchange.
    secure="ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate $certificate; ssl_certificate_key $key;",
    secure_listen=" ssl http2",
)
