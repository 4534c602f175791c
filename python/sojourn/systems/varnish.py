"""Varnish: a manager, and a worker whose threads each serve a connection while it is active.

Its options are those of the command line; the template is its program in VCL.
"""

from sojourn.systems.caching_proxy import CachingProxy

THREADS_MIN = 100
"""Threads present from the start: one per client of a benchmark, and Varnish's own."""

_MESSAGES = ("Method", "URL", "Protocol", "Status", "Reason", "Header", "Unset")
UNLOGGED = (
    *(f"{of}{message}" for of in ("Req", "Resp", "Bereq", "Beresp") for message in _MESSAGES),
    *("ReqStart", "ReqAcct", "BereqAcct", "VCL_call", "VCL_return", "VCL_use", "Timestamp", "Length", "Filters"),
    *("Begin", "End", "Link", "Hit", "TTL", "Storage", "Fetch_Body", "SessOpen", "SessClose"),
    *("BackendOpen", "BackendReuse", "BackendClose"),
)
"""Log records per request, which Varnish otherwise writes to shared memory even without a reader."""

VARNISH = CachingProxy(
    name="varnish",
    package="varnish",
    program="varnishd",
    arguments=(
        "-F",
        *("-n", "$work/varnish"),
        *("-f", "$configuration"),
        *("-a", "127.0.0.1:$port"),
        *("-s", "malloc,$memory_bytes"),
        # No jail, because its own users could not access the folder.
        *("-j", "none"),
        *("-T", "none"),
        # One core needs one thread pool; its threads exist before the load starts.
        *("-p", "thread_pools=1"),
        *("-p", f"thread_pool_min={THREADS_MIN}"),
        *("-p", "timeout_idle=75"),
        *("-p", "vsl_mask=" + ",".join(f"-{message}" for message in UNLOGGED)),
    ),
    version_option="-V",
    access_log_off="",
    access_log_on="",
)
