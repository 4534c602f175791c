r"""The dynamic part of a SPECweb99-like load as a WSGI application: `sojourn-engine web99` in Python.

    sojourn fileset web99 --load 20 --output site
    sojourn serve site --app 'gunicorn --bind fd://0 --chdir examples/web99 application:application' \
        --app-protocol http --app-workers 1 --route '{ path = "/web99/", app = true }'

Run as a program it is a CGI script. WEB99_SITE is the directory of the file set (by default the current one),
WEB99_POST_LOG the log of forms. SPECweb99 is a trademark; results of this program are not SPECweb99 results.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from wsgiref.handlers import CGIHandler

ADVERTISEMENTS = 360
RECORD_BYTES = 128
BODY_BYTES_MAX = 64 * 1024
WEIGHT_MIN = 3
GROUPS = ((0b11, 1), (0b1111 << 2, 2), (0b11_1111 << 6, 2), (0x3FF << 12, 3), (0x3FF << 22, 2))
"""The groups of visitors and audiences, as bits, and the weight of a group that both share."""
EXPIRED_EACH = 50
WORD = 0xFFFF_FFFF
FILE = re.compile(r"/file_set/dir\d{5,10}/class[0-3]_[0-8]")
VISITOR = re.compile(r"user=(\d{1,10})&last=(\d{1,10})")

Environment = dict[str, Any]
Answer = tuple[HTTPStatus, list[tuple[str, str]], bytes]


class Refused(Exception):
    """A request that does not belong to the workload, or cannot be answered."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def application(
    environment: Environment, start_response: Callable[[str, list[tuple[str, str]]], Any]
) -> Iterable[bytes]:
    """Answers a request."""
    try:
        status, fields, body = answer(environment)
    except Refused as refused:
        status, fields, body = refused.status, [("Content-Type", "text/plain")], f"{refused}\n".encode()
    start_response(f"{status.value} {status.phrase}", [*fields, ("Content-Length", str(len(body)))])
    return [body]


def answer(environment: Environment) -> Answer:
    """Returns the status, the fields and the body."""
    method, query = environment["REQUEST_METHOD"], environment.get("QUERY_STRING", "")
    if query == "command/Fetch":
        return HTTPStatus.OK, [("Content-Type", "text/plain")], post_log().read_bytes()
    if query == "command/Reset":
        post_log().write_bytes(b"")
        return HTTPStatus.OK, [("Content-Type", "text/plain")], b"an empty log\n"
    if method == "GET":
        if "HTTP_COOKIE" not in environment:
            return page(environment, query, None)
        shown = advertisement_for(*visitor(environment))
        number, weight, expired = shown
        cookie = f"shown=ad={number:03}&weight={weight}&expired={int(expired)}"
        return page(environment, query, number, ("Set-Cookie", cookie))
    if method != "POST":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "GET or POST")
    length = min(int(environment.get("CONTENT_LENGTH") or 0), BODY_BYTES_MAX)
    form = parse_qs(environment["wsgi.input"].read(length).decode("ascii", "replace"))
    try:
        directory, kind, file, client = (int(form[name][0]) for name in ("dir", "class", "num", "client"))
    except (KeyError, ValueError):
        raise Refused(HTTPStatus.BAD_REQUEST, "dir, class, num and client are numbers of the form") from None
    user, last = visitor(environment)
    path = f"/file_set/dir{directory:05}/class{kind}_{file}"
    found = page(environment, path, None, ("Set-Cookie", f"visitor=user={user}&last={last:03}"))
    append(path, client, user, last)
    return found


def page(environment: Environment, path: str, advertisement: int | None, *fields: tuple[str, str]) -> Answer:
    """Returns a page around a file of the set."""
    if not FILE.fullmatch(path):
        raise Refused(HTTPStatus.BAD_REQUEST, "no file of the set")
    try:
        content = Path(os.environ.get("WEB99_SITE", "."), path.lstrip("/")).read_bytes()
    except FileNotFoundError:
        raise Refused(HTTPStatus.NOT_FOUND, "no such file in the set") from None
    shown = ""
    if advertisement is not None:
        picture = f"/file_set/dir{advertisement // 36:05}/class1_{advertisement % 9}"
        shown = f'<p><img src="{picture}" alt="advertisement {advertisement}"></p>\n'
    said = (environment.get(name, "") for name in ("SERVER_SOFTWARE", "REMOTE_ADDR", "SCRIPT_NAME", "QUERY_STRING"))
    about = "{} for {} by {}: {}".format(*said)
    head = f"<!DOCTYPE html>\n<title>{path}</title>\n<p>{about}</p>\n{shown}<pre>\n"
    return HTTPStatus.OK, [("Content-Type", "text/html"), *fields], head.encode() + content + b"\n</pre>\n"


def visitor(environment: Environment) -> tuple[int, int]:
    """Returns the visitor's number, and the advertisement that it saw last."""
    cookie = SimpleCookie(environment.get("HTTP_COOKIE", "")).get("visitor")
    found = VISITOR.fullmatch(cookie.value) if cookie is not None else None
    if found is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "a cookie names the visitor")
    return int(found[1]), int(found[2])


def advertisement_for(user: int, last: int) -> tuple[int, int, bool]:
    """Returns the next advertisement for the visitor's groups, its weight, and whether it has expired."""
    visitors = groups_of(user, 0x9E37_79B9)
    first = last % ADVERTISEMENTS + 1
    for each in range(first, first + ADVERTISEMENTS):
        number = each % ADVERTISEMENTS
        common = visitors & groups_of(number, 0x85EB_CA6B)
        weight = sum(weight for group, weight in GROUPS if common & group)
        if weight >= WEIGHT_MIN:
            break
    return number, weight, number % EXPIRED_EACH == EXPIRED_EACH - 1


def groups_of(number: int, factor: int) -> int:
    """Returns a bit in each group, by a multiplicative hash of the number."""
    hashed = (number + 1) * factor & WORD
    hashed = (hashed ^ hashed >> 15) * 0xC2B2_AE35 & WORD
    rest, bits = hashed ^ hashed >> 13, 0
    for group, _ in GROUPS:
        width = group.bit_count()
        bits |= (group & -group) << rest % width
        rest //= width
    return bits


def append(path: str, client: int, user: int, last: int) -> None:
    """Appends a record to the log, numbered by its position."""
    with post_log().open("ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        number = os.fstat(log.fileno()).st_size // RECORD_BYTES + 1
        text = f"{number:10} {int(time.time()):10} {os.getpid():10} {path:<40} {client:10} {user:10} {last:10}"
        log.write(f"{text:<{RECORD_BYTES - 1}.{RECORD_BYTES - 1}}\n".encode())


def post_log() -> Path:
    """Returns the path of the log of forms."""
    name = os.environ.get("WEB99_POST_LOG")
    if name is None:
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "WEB99_POST_LOG names no file for the log of forms")
    log = Path(name)
    log.touch()
    return log


if __name__ == "__main__":
    CGIHandler().run(application)
