"""Caddy: one process, a goroutine per connection on as many threads as it has cores."""

from sojourn.systems.configured import Configured

CADDY = Configured(
    name="caddy",
    package="caddy",
    arguments=("run", "--adapter", "caddyfile", "--config", "$configuration"),
    version_option="version",
    access_log_off="",
    # It logs as JSON only.
    access_log_on="",
    secure="tls $certificate $key",
    secure_listen="s",
)
