"""Converts between routes, chosen once per job, and JMT's routing probabilities at every station.

A class's routes become a Markov chain if the next station does not depend on earlier ones; a chain becomes routes by
enumerating its paths. Both directions are exact, or refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sojourn.jmt.translation import Translation, refused

END = None
"""The end of a route: the sink, or a thinking user."""
ROUTES_MAX = 1000
VISITS_MAX = 1000
PROBABILITY_MIN = 1e-9
"""Rarer paths of a chain with loops are cut off."""
ROUNDING = 1e-6

Chain = dict[str, dict[str | None, float]]
Route = tuple[float, tuple[str, ...]]


def chain_of(routes: Sequence[Route], class_name: str, start: str) -> Chain:
    """Transition probabilities from `start` and from every station; refuses routes that would need a class switch."""
    weights: dict[str, dict[str | None, float]] = {}
    for probability, stations in routes:
        for here, following in zip((start, *stations), (*stations, END), strict=True):
            weights.setdefault(here, {}).setdefault(following, 0.0)
            weights[here][following] += probability
    chain: Chain = {
        here: {following: weight / sum(following_weights.values()) for following, weight in following_weights.items()}
        for here, following_weights in weights.items()
    }
    for probability, stations in routes:
        said = 1.0
        for here, following in zip((start, *stations), (*stations, END), strict=True):
            said *= chain[here][following]
        if abs(said - probability) > ROUNDING:
            raise refused(
                f"class {class_name}: what follows a station depends on the route ({' - '.join(stations)})",
                "give each route a class of its own",
            )
    return chain


def routes_of(
    entry: Mapping[str | None, float],
    following: Callable[[str], Mapping[str | None, float]],
    class_name: str,
    translation: Translation,
) -> list[Route]:
    """All paths from the entry to `END` with their probabilities, which sum to one.

    Args:
        entry: where a job goes first.
        following: the transitions out of a station.
        class_name: for messages.
        translation: receives a warning about cut paths.
    """
    found: list[Route] = []
    cut = 0.0
    open_paths: list[tuple[float, tuple[str, ...], Mapping[str | None, float]]] = [(1.0, (), entry)]
    while open_paths:
        probability, path, onward = open_paths.pop()
        for station, share in onward.items():
            reached = probability * share
            if station is END:
                found.append((reached, path))
            elif reached < PROBABILITY_MIN or len(path) >= VISITS_MAX:
                cut += reached
            else:
                open_paths.append((reached, (*path, station), following(station)))
        if len(found) + len(open_paths) > ROUTES_MAX:
            raise refused(
                f"class {class_name}: its routing has more than {ROUTES_MAX:,} paths",
                "loops with several branches make many: replace a loop by visits with their mean number",
            )
    if cut > 0:
        translation.warn(f"class {class_name}: paths rarer than {PROBABILITY_MIN:g} were cut, {cut:.2g} in all")
    total = sum(probability for probability, _ in found)
    if not found or any(not path for _, path in found):
        raise refused(f"class {class_name}: some of its jobs visit no station")
    return sorted(((probability / total, path) for probability, path in found), reverse=True)
