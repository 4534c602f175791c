"""Groups a log's requests into endpoints, each served by the same code: detected, or given as patterns.

A detected endpoint is a method and a path with generalised identifiers: `GET /products/{slug}`. A segment is an
identifier by its look (a number, a UUID, a hash, a date, words with a number), or because it is one of many under the
same parent. A query's values are generalised, but for parameters that choose the code (`action=`). Requests always
answered with not found form one endpoint, and rare requests another. Given patterns take precedence: `GET /api/*`.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from sojourn.applications.requests import Asked
from sojourn.failure import CouldNotRun
from sojourn.workload.characteristics import visible

SIBLINGS_MAX = 12
"""With more distinct segments under one parent, they are identifiers rather than pages."""
FREQUENT_SIBLING = 0.4
"""A segment with at least this share of its parent's requests is a page all the same."""
RARE = 0.003
"""Endpoints with a smaller share of the requests are combined into one."""
ENDPOINTS_MAX = 24
"""The most separate endpoints; the rarest of the others are combined."""
PARAMETERS_SHOWN_MAX = 4
CHOOSING = frozenset(["action", "cmd", "controller", "do", "method", "mod", "op", "option", "route", "task", "view"])
"""Query parameters whose values select the code."""
NOT_FOUND = frozenset((400, 401, 403, 404, 405, 410))
OTHER = "(other)"
REFUSED = "(not found)"

_LOOKS: Sequence[tuple[str, re.Pattern[str]]] = (
    ("{id}", re.compile(r"\d+")),
    ("{uuid}", re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)),
    ("{date}", re.compile(r"\d{4}-\d{2}(-\d{2})?")),
    ("{hash}", re.compile(r"(?=.*\d)[0-9a-f]{8,}", re.IGNORECASE)),
    ("{token}", re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~=-]{20,}")),
    ("{slug}", re.compile(r"(?=.*\d)[\w%~]+([-_][\w%~]+)+")),
)
_SUFFIX = re.compile(r"[^.]+(?:\.[^.]+)*?\.([A-Za-z][A-Za-z0-9]{1,5})")


@dataclass(frozen=True)
class Endpoint:
    """Requests served by the same code."""

    name: str
    """Method and pattern, such as `GET /products/{slug}`."""
    method: str
    requests: tuple[Asked, ...]
    """The requests, most frequent first."""

    @property
    def count(self) -> int:
        """The number of requests."""
        return sum(each.count for each in self.requests)

    @property
    def targets(self) -> int:
        """The number of distinct targets."""
        return len({each.target for each in self.requests})

    @property
    def mean_bytes(self) -> float:
        """The mean size of a response."""
        return sum(each.bytes for each in self.requests) / self.count

    @property
    def mean_logged_seconds(self) -> float | None:
        """The mean logged duration; None if the log has none."""
        known = [each for each in self.requests if each.request_seconds is not None]
        count = sum(each.count for each in known)
        return sum(each.request_seconds or 0.0 for each in known) / count if count else None

    def statuses(self) -> Counter[int]:
        """The number of responses by status."""
        counted: Counter[int] = Counter()
        for each in self.requests:
            counted[each.status] += each.count
        return counted


def endpoints(rows: Iterable[Asked], given: Sequence[str] = ()) -> list[Endpoint]:
    """Groups a log's requests into endpoints with different names, most frequent first; each request is in one of them.

    Args:
        rows: the log's requests.
        given: patterns like `GET /api/*`, or with a name, `api=GET /api/*`. Without a method they are of all methods.

    Raises:
        CouldNotRun: an invalid pattern.
    """
    patterns = [_Given.parse(text) for text in given]
    grouped: defaultdict[tuple[str, str], list[Asked]] = defaultdict(list)
    left: defaultdict[str, list[Asked]] = defaultdict(list)
    # Sorted, so that the result depends only on the log's content.
    for row in sorted(rows, key=lambda row: (row.method, row.target, row.status)):
        for pattern in patterns:
            if pattern.takes(row):
                grouped[row.method, pattern.name].append(row)
                break
        else:
            left[row.method].append(row)
    total = sum(row.count for rows in (*grouped.values(), *left.values()) for row in rows)
    for method, rows_of_method in left.items():
        found = _found(rows_of_method)
        for name, members in _without_rare(found, total).items():
            grouped[method, f"{method} {name}"] += members
    made = [
        Endpoint(name, method, tuple(sorted(members, key=lambda row: (-row.count, row.target, row.status))))
        for (method, name), members in grouped.items()
    ]
    made.sort(key=lambda endpoint: (-endpoint.count, endpoint.name, endpoint.method))
    # A pattern of all methods gives several the same name: the most frequent keeps it.
    names = set[str]()
    for place, endpoint in enumerate(made):
        if endpoint.name in names:
            made[place] = replace(endpoint, name=f"{endpoint.method} {endpoint.name}")
        names.add(made[place].name)
    return made


@dataclass(frozen=True)
class _Given:
    name: str
    method: str | None
    fits: Callable[[str], object]

    @classmethod
    def parse(cls, text: str) -> _Given:
        found = re.fullmatch(r"(?:(?P<name>[^=/?*]+)=)?(?:(?P<method>[A-Z]+) +)?(?P<path>[/*].*)", text.strip())
        if found is None:
            raise CouldNotRun(f"{text!r} is no endpoint", "give one like 'GET /api/*' or 'search=/search*'")
        pattern = re.compile(fnmatch.translate(found["path"]))
        return cls((found["name"] or text).strip(), found["method"], pattern.match)

    def takes(self, row: Asked) -> bool:
        if self.method not in (None, row.method):
            return False
        return bool(self.fits(row.target) or self.fits(row.path))


def matching(pattern: str, known: Sequence[Endpoint]) -> list[Endpoint]:
    """The endpoints that a pattern matches: by name, or all of whose requests it covers."""
    same = [each for each in known if each.name == pattern]
    if same:
        return same
    given = _Given.parse(pattern)
    return [each for each in known if all(given.takes(row) for row in each.requests)]


def _found(rows: Sequence[Asked]) -> dict[str, list[Asked]]:
    refused = _only_refused(rows)
    groups: defaultdict[str, list[Asked]] = defaultdict(list)
    groups[REFUSED] = [row for row in rows if row.target in refused]
    tree = _Node()
    for row in rows:
        if row.target not in refused:
            tree.add(_segments(row.path), row)
    for path, members in tree.patterns():
        for query, part in _by_choice(members).items():
            # A name is a line of text: in a scenario, in a comment of a system file, on the terminal.
            groups[visible(path + query)] += part
    return {name: members for name, members in groups.items() if members}


def _only_refused(rows: Sequence[Asked]) -> set[str]:
    answered = {row.target for row in rows if row.status not in NOT_FOUND}
    return {row.target for row in rows if row.status in NOT_FOUND} - answered


def _without_rare(groups: dict[str, list[Asked]], total: int) -> dict[str, list[Asked]]:
    def count(name: str) -> int:
        return sum(row.count for row in groups[name])

    ordered = sorted(groups, key=lambda name: (-count(name), name))
    kept = [name for name in ordered if count(name) >= RARE * total][:ENDPOINTS_MAX]
    rare = [name for name in ordered if name not in kept]
    result = {name: groups[name] for name in kept}
    if len(rare) == 1:
        result[rare[0]] = groups[rare[0]]
    elif rare:
        result[OTHER] = [row for name in rare for row in groups[name]]
    return result


class _Node:
    """A path segment with the segments that follow it."""

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.rows: list[Asked] = []
        self.count = 0

    def add(self, segments: Sequence[str], row: Asked) -> None:
        """Adds a request below this segment; segments that look like identifiers share a child."""
        self.count += row.count
        if not segments:
            self.rows.append(row)
            return
        self.children.setdefault(_looked_at(segments[0]), _Node()).add(segments[1:], row)

    def patterns(self, prefix: str = "") -> Iterable[tuple[str, list[Asked]]]:
        """All path patterns below this segment with their requests."""
        if self.rows:
            yield prefix or "/", self.rows
        for segment, child in sorted(self._generalised().items()):
            yield from child.patterns(f"{prefix}/{segment}")

    def _generalised(self) -> dict[str, _Node]:
        literal = {name: child for name, child in self.children.items() if not name.startswith("{")}
        kept = {name: child for name, child in self.children.items() if name.startswith("{")}
        by_suffix: defaultdict[str, list[str]] = defaultdict(list)
        for name in literal:
            suffix = _SUFFIX.fullmatch(name)
            by_suffix[f"{{name}}.{suffix[1].lower()}" if suffix else "{name}"].append(name)
        for general, names in by_suffix.items():
            if len(names) <= SIBLINGS_MAX:
                kept |= {name: literal[name] for name in names}
                continue
            together = _Node()
            for name in names:
                if literal[name].count >= FREQUENT_SIBLING * self.count:
                    kept[name] = literal[name]
                else:
                    together.merge(literal[name])
            kept[general] = together
        return kept

    def merge(self, other: _Node) -> None:
        """Merges another node's requests into this one."""
        self.count += other.count
        self.rows += other.rows
        for name, child in other.children.items():
            self.children.setdefault(name, _Node()).merge(child)


def _segments(path: str) -> list[str]:
    # Old logs contain paths without the leading slash.
    inner = path.removeprefix("/")
    return inner.split("/") if inner else []


def _looked_at(segment: str) -> str:
    stem, dot, suffix = segment.rpartition(".")
    if dot and re.fullmatch(r"[A-Za-z][A-Za-z0-9]{1,5}", suffix):
        look = _look(stem)
        return f"{look}.{suffix.lower()}" if look else segment
    # Escapes braces in a path, so that they cannot be confused with placeholders.
    return _look(segment) or segment.replace("{", "%7B")


def _look(text: str) -> str | None:
    return next((name for name, pattern in _LOOKS if pattern.fullmatch(text)), None)


def _by_choice(rows: Sequence[Asked]) -> dict[str, list[Asked]]:
    """Groups requests of one path by the values of selecting parameters, followed by the other parameters' names."""
    groups: defaultdict[tuple[tuple[str, str], ...], list[Asked]] = defaultdict(list)
    names: defaultdict[tuple[tuple[str, str], ...], Counter[str]] = defaultdict(Counter)
    for row in rows:
        # A query without `=` is a single value, as of an image map: `?103,122`.
        pairs = parse_qsl(row.query, keep_blank_values=True) if "=" in row.query else []
        choice = tuple(sorted((name, value) for name, value in pairs if name in CHOOSING and not _look(value)))
        groups[choice].append(row)
        names[choice].update({name: row.count for name, _ in pairs if name not in dict(choice)})
    if len(groups) > SIBLINGS_MAX:
        together: Counter[str] = Counter()
        for choice, counted in names.items():
            together.update(counted)
            together.update({name: 1 for name, _ in choice})
        groups, names = defaultdict(list, {(): list(rows)}), defaultdict(Counter, {(): together})
    return {_query(choice, names[choice]): members for choice, members in groups.items()}


def _query(choice: tuple[tuple[str, str], ...], names: Counter[str]) -> str:
    # Sorted by count, then by name, so that equal counts have a stable order.
    ordered = sorted(names, key=lambda name: (-names[name], name))
    shown = [f"{name}={value}" for name, value in choice] + sorted(ordered[:PARAMETERS_SHOWN_MAX])
    if len(ordered) > PARAMETERS_SHOWN_MAX:
        shown.append("…")
    return "?" + "&".join(shown) if shown else ""
