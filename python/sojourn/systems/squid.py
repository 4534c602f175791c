"""Squid: one process that is an event loop, in front of one server (accelerator)."""

from sojourn.systems.caching_proxy import CachingProxy

SQUID = CachingProxy(
    name="squid",
    package="squid",
    # In the foreground, without a process that would restart it.
    arguments=("-N", "-f", "$configuration"),
    version_option="--version",
    access_log_off="",
    access_log_on="",
)
