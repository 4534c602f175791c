"""nginx as a caching proxy: a master, one worker that is an event loop, and the cache manager."""

from urllib.parse import urlsplit

from sojourn.systems.caching_proxy import CachingProxy
from sojourn.systems.server import Launch

_BY_HTTP = """proxy_pass http://origin;
            proxy_http_version 1.1;
            # Nothing of the client's connection: it is what lets the connection to the server be kept.
            proxy_set_header Connection "";
            proxy_cache answers;
            # What passes through is held in memory, not in files.
            proxy_buffers 16 64k;
            proxy_buffer_size 16k;
            proxy_busy_buffers_size 128k;"""
_VARIABLES = {
    "SCRIPT_FILENAME": "$document_root$fastcgi_script_name",
    "QUERY_STRING": "$query_string",
    "REQUEST_METHOD": "$request_method",
    "CONTENT_TYPE": "$content_type",
    "CONTENT_LENGTH": "$content_length",
    "SCRIPT_NAME": "$fastcgi_script_name",
    "REQUEST_URI": "$request_uri",
    "DOCUMENT_URI": "$document_uri",
    "DOCUMENT_ROOT": "$document_root",
    "SERVER_PROTOCOL": "$server_protocol",
    "REQUEST_SCHEME": "$scheme",
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SERVER_SOFTWARE": "nginx",
    "REMOTE_ADDR": "$remote_addr",
    "REMOTE_PORT": "$remote_port",
    "SERVER_ADDR": "$server_addr",
    "SERVER_PORT": "$server_port",
    "SERVER_NAME": "$server_name",
    "REDIRECT_STATUS": "200",
}
"""The variables of the package's fastcgi.conf."""
_BY_FASTCGI = "\n            ".join(
    [
        "fastcgi_pass origin;",
        "fastcgi_keep_conn on;",
        "fastcgi_buffers 16 64k;",
        "fastcgi_buffer_size 16k;",
        "fastcgi_busy_buffers_size 128k;",
        *(f"fastcgi_param {name} {value};" for name, value in _VARIABLES.items()),
    ]
)


class NginxProxy(CachingProxy):
    """Proxies to HTTP with a cache, or to FastCGI (`fcgi://`) without one."""

    def _values(self, launch: Launch, port: int) -> dict[str, str]:
        is_fastcgi = urlsplit(str(launch.upstream)).scheme == "fcgi"
        return {**super()._values(launch, port), "passing": _BY_FASTCGI if is_fastcgi else _BY_HTTP}


NGINX_PROXY = NginxProxy(
    name="nginx-proxy",
    package="nginx-light",
    program="nginx",
    arguments=("-p", "$work", "-c", "$configuration", "-e", "$work/error.log"),
    version_option="-v",
    access_log_off="",
    access_log_on="",
    user="user $login;",
)
