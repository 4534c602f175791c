"""nginx as a caching proxy: a master, one worker that is an event loop, and who looks after the files of the cache."""

from sojourn.systems.caching_proxy import CachingProxy

NGINX_PROXY = CachingProxy(
    name="nginx-proxy",
    package="nginx-light",
    program="nginx",
    arguments=("-p", "$work", "-c", "$configuration", "-e", "$work/error.log"),
    version_option="-v",
    access_log_off="",
    access_log_on="",
    user="user $login;",
)
