"""The competitors: our architectures, and other servers in front of a FastCGI application or of CGI scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from benchmarks.dynamic.conditions import Condition, Kind
from benchmarks.server import conditions
from benchmarks.server.competitors import Competitor, start_null_responder
from sojourn import systems
from sojourn.engine.description import architectures
from sojourn.systems import Launch, Running
from sojourn.systems.apache2 import APACHE2
from sojourn.systems.caddy import CADDY
from sojourn.systems.configured import Configured
from sojourn.systems.lighttpd import LIGHTTPD
from sojourn.systems.nginx_proxy import NGINX_PROXY

_LIGHTTPD: dict[Kind, str] = {
    "fastcgi": """
server.modules += ("mod_fastcgi")
fastcgi.server = ("/" => (("host" => "$application_host", "port" => $application_port, "check-local" => "disable")))
""",
    "cgi": """
server.modules += ("mod_cgi")
cgi.assign = ("" => "")
""",
}
_MODULES = "/usr/lib/apache2/modules"
_APACHE: dict[Kind, str] = {
    "fastcgi": f"""
LoadModule proxy_module {_MODULES}/mod_proxy.so
LoadModule proxy_fcgi_module {_MODULES}/mod_proxy_fcgi.so
# Connections are kept: by default it makes one for each request.
ProxyPass "/" "fcgi://$application_host:$application_port/" enablereuse=on
""",
    "cgi": f"""
LoadModule alias_module {_MODULES}/mod_alias.so
LoadModule cgid_module {_MODULES}/mod_cgid.so
ScriptSock $work/cgid.sock
ScriptAlias "/" "$root/"
""",
}
_CADDY = """{
    admin off
    auto_https off
    log {
        level ERROR
    }
}
http://127.0.0.1:$port {
    reverse_proxy $application_host:$application_port {
        transport fastcgi {
            root $root
        }
    }
}
"""


@dataclass(frozen=True)
class Gateway:
    """Another server, whose configuration for files is extended to make it a gateway."""

    server: Configured
    words: dict[Kind, str]

    def start(self, launch: Launch, condition: Condition) -> Running:
        return _with_words(self.server, self.words[condition.of]).start(launch)


def _with_words(server: Configured, words: str) -> Configured:
    """Returns the server with this text at the end of its configuration."""

    class Extended(type(server)):  # type: ignore[misc]
        def _values(self, launch: Launch, port: int) -> dict[str, str]:
            application = urlsplit(launch.upstream or "")
            return {
                **super()._values(launch, port),
                "application_host": str(application.hostname),
                "application_port": str(application.port),
            }

        def _configure(self, values: dict[str, str]) -> None:
            if server.name != "caddy":
                super()._configure(values)
            with Path(values["configuration"]).open("a") as file:
                file.write(Template(words).substitute(values))

    extended: Configured = Extended(**vars(server))
    return extended


def competitors() -> Sequence[Competitor]:
    """Returns all competitors in the order of the tables: ours, peers, the least that is possible."""
    return [
        *(_ours(name) for name in architectures()),
        Competitor("nginx", "peer", lambda launch, _: NGINX_PROXY.start(launch), _is("fastcgi")),
        _peer(Gateway(LIGHTTPD, _LIGHTTPD)),
        _peer(Gateway(APACHE2, _APACHE)),
        _peer(Gateway(CADDY, {"fastcgi": _CADDY})),
        Competitor("null-gateway", "null", _start_floor, _is("fastcgi")),
        Competitor("null-spawn", "null", _start_loop, _is("cgi")),
    ]


def _ours(name: str) -> Competitor:
    def start(launch: Launch, condition: conditions.Condition) -> Running:
        assert isinstance(condition, Condition)
        to = f'upstream = "{launch.upstream}"' if condition.of == "fastcgi" else f'cgi = "{launch.root}"'
        route = ("--route", f'{{ path = "/", {to} }}')
        return systems.SYSTEMS["sojourn"].start(replace(launch, architecture=name, upstream=None, options=route))

    # A server with a process per connection keeps no connection to the application.
    return Competitor(name, "ours", start, lambda condition: name != "inetd")


def _peer(gateway: Gateway) -> Competitor:
    def start(launch: Launch, condition: conditions.Condition) -> Running:
        assert isinstance(condition, Condition)
        return gateway.start(launch, condition)

    def takes(condition: conditions.Condition) -> bool:
        return isinstance(condition, Condition) and condition.of in gateway.words

    return Competitor(gateway.server.name, "peer", start, takes)


def _is(kind: Kind) -> Callable[[conditions.Condition], bool]:
    return lambda condition: isinstance(condition, Condition) and condition.of == kind


def _start_floor(launch: Launch, condition: conditions.Condition) -> Running:
    application = urlsplit(launch.upstream or "").netloc
    return start_null_responder(launch, condition, "--variant", "gateway", "--application", application)


def _start_loop(launch: Launch, condition: conditions.Condition) -> Running:
    return start_null_responder(launch, condition, "--variant", "spawn")
