"""Every check and explanation of every study that comes along: points that fulfil it, and points that must fail it.

Of each bound there must be possible points beyond it: a share lies between 0 and 1, and a line delivers no more than it
carries. A check that no points can fail says nothing, and is a defect of the study.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from sojourn.study import catalogue
from sojourn.study.cells import Cells
from sojourn.study.checks import judge
from sojourn.study.declarations import Check, Crossing, FixedPart, Monotone, Ratio, Value, Within, with_explanations
from sojourn.study.document import Study
from sojourn.study.evidence import evidence
from sojourn.study.places import along, places
from sojourn.study.points import Settings, cells, filled, matches, number
from sojourn.text import quantity

REPETITIONS = 3
FAR = 2.0
"""How far inside its bounds a figure is that fulfils them, and how far outside one that does not."""
STEP = 1.1
BACK = 0.7
Figures = dict[tuple[str, int], float]
"""By metric and cell."""

PUBLISHED = [
    pytest.param(study, check, id=f"{study.name}: {check.says[:60]}")
    for _, study in catalogue.studies()
    for check in with_explanations(study.checks)
]


@dataclass
class Made:
    """Points of a study, made for a check."""

    study: Study
    check: Check

    def __post_init__(self) -> None:
        self.settings = list(cells(self.study))
        self.there = Cells.of(
            (
                {"settings": each, "repetition": 1, "metrics": {}, "failed": None, "generator_limited": None}
                for each in self.settings
            ),
            self.study.linked,
        )

    def judged(self, figures: Figures) -> str:
        """The finding on points with these figures, which differ a little from repetition to repetition."""
        for (metric, place), value in figures.items():
            least, most = possible(self.study, metric, self.settings[place])
            assert least <= value <= most, f"no {metric} of {value:g} is possible at {dict(self.settings[place])}"
        records = [
            {
                "settings": settings,
                "repetition": repetition,
                "failed": None,
                "generator_limited": None,
                "metrics": {
                    metric: value * (1 - 1e-4 * abs(math.sin(7 * place + 3 * repetition)))
                    for (metric, at), value in figures.items()
                    if at == place
                },
            }
            for place, settings in enumerate(self.settings)
            for repetition in range(1, REPETITIONS + 1)
        ]
        verdict = judge(self.check, Cells.of(records, self.study.linked), self.study.figure)
        return verdict.finding

    def at(self, settings: Settings) -> int:
        """The place of a cell."""
        return self.settings.index(settings)


def possible(study: Study, metric: str, settings: Settings) -> tuple[float, float]:
    """Between which figures a metric is, by what it is and by the line that the clients are behind."""
    if study.figure(metric).quantity == "fraction":
        return 0.0, 1.0
    if study.workload is not None and metric == "throughput":
        rate = re.search(r"--rate (\S+)", filled(study.workload.link, settings))
        if rate is not None:
            return 0.0, float(quantity.bits_per_second(rate[1]))
    return 0.0, math.inf


def inside(check: Ratio | Within, most_possible: float = math.inf) -> float:
    """A figure that keeps the bounds."""
    if check.least is not None and check.most is not None:
        return math.sqrt(check.least * check.most)
    if check.least is not None:
        return min(FAR * check.least, (check.least + most_possible) / 2)
    assert check.most is not None, "a check has a bound"
    return check.most / FAR


def outside(check: Ratio | Within, most_possible: float = math.inf) -> Iterator[float]:
    """A figure beyond each of its bounds."""
    if check.least is not None:
        yield check.least / FAR
    if check.most is not None:
        yield min(check.most * FAR, (check.most + most_possible) / 2)


def of_ratio(made: Made, check: Ratio) -> tuple[Figures, list[Figures]]:
    metrics = check.metric, check.right_metric or check.metric
    found = places(made.there, check.left, check.right, check.over)
    assert found, "both sides are in the study"
    ours = {made.at(cell.settings) for place in found for cell in place.left}
    others = {made.at(cell.settings) for place in found for cell in place.right}
    assert metrics[0] != metrics[1] or not ours & others, "no cell is on both sides"
    base = 0.1
    right = {(metrics[1], place): base for place in others}

    def figures(ratio: float, changed: Iterable[int]) -> Figures:
        return {(metrics[0], place): base * ratio for place in changed}

    good = {**right, **figures(inside(check), ours)}
    one = {made.at(found[-1].left[0].settings)} if check.places == "each" else ours
    return good, [{**good, **figures(ratio, one)} for ratio in outside(check)]


def of_within(made: Made, check: Within) -> tuple[Figures, list[Figures]]:
    found = [place for place, settings in enumerate(made.settings) if matches(settings, check.over)]
    assert found, "its cells are in the study"
    most = min(possible(made.study, check.metric, made.settings[place])[1] for place in found)
    good = {(check.metric, place): inside(check, most) for place in found}
    changed = found[-1:] if check.places == "each" else found
    return good, [{**good, **{(check.metric, place): value for place in changed}} for value in outside(check, most)]


def of_monotone(made: Made, check: Monotone) -> tuple[Figures, list[Figures]]:
    values = along(made.there, check.along, check.over)
    assert len(values) > 1, "there are steps"
    rises = check.direction == "rises"
    power = {value: STEP ** (place if rises else -place) for place, value in enumerate(values)}
    good = {
        (check.metric, place): 0.5 * power[settings[check.along]]
        for place, settings in enumerate(made.settings)
        if matches(settings, check.over)
    }
    last = max(place for _, place in good if made.settings[place][check.along] == values[-1])
    before = 0.5 * power[values[-2]]
    return good, [{**good, (check.metric, last): before * (BACK if rises else 1 / BACK)}]


def of_crossing(made: Made, check: Crossing) -> tuple[Figures, list[Figures]]:
    values = along(made.there, check.along, check.over)
    after, before = number_of(check.after, values[0]), number_of(check.before, values[-1])
    metrics = check.metric, check.right_metric or check.metric

    def figures(sides: dict[Value, float]) -> Figures:
        made_up = {}
        for value, ratio in sides.items():
            for place in places(made.there, check.left, check.right, {**check.over, check.along: value}):
                made_up[metrics[0], made.at(place.left[0].settings)] = ratio
                made_up[metrics[1], made.at(place.right[0].settings)] = 1.0
        return made_up

    good = {value: 1 / FAR if number_of(value, value) <= after else FAR for value in values}
    below = [value for value in values if number_of(value, value) <= after]
    above = [value for value in values if number_of(value, value) >= before]
    late, early = {**good, above[0]: 1 / FAR}, {**good, below[-1]: FAR}
    return figures(good), [figures(late), figures(early)]


def of_fixed_part(made: Made, check: FixedPart) -> tuple[Figures, list[Figures]]:
    bounds = [None if bound is None else number_of(bound, bound) for bound in (check.least, check.most)]
    as_ratio = Ratio(says="", metric=check.metric, least=bounds[0], most=bounds[1])

    def line(worth: float) -> Figures:
        return {
            (check.metric, place): worth + number_of(settings[check.along], settings[check.along])
            for place, settings in enumerate(made.settings)
            if matches(settings, check.over)
        }

    return line(inside(as_ratio)), [line(worth) for worth in outside(as_ratio)]


def number_of(value: Value | None, other: Value) -> float:
    found = number(other if value is None else value)
    assert found is not None
    return found


def points(made: Made) -> tuple[Figures, Sequence[Figures]]:
    """Figures that fulfil the check, and some that must fail it: one for each of its bounds."""
    check = made.check
    if isinstance(check, Ratio):
        return of_ratio(made, check)
    if isinstance(check, Within):
        return of_within(made, check)
    if isinstance(check, Monotone):
        return of_monotone(made, check)
    return of_crossing(made, check) if isinstance(check, Crossing) else of_fixed_part(made, check)


@pytest.mark.parametrize(("study", "check"), PUBLISHED)
def test_points_that_fulfil_it_and_points_that_must_fail_it(study: Study, check: Check) -> None:
    made = Made(study, check)
    good, bad = points(made)
    assert made.judged(good) == "holds"
    assert bad
    for figures in bad:
        assert made.judged(figures) == "does not hold"


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("web-model/network", {"metric": "throughput", "over": {"network": "10Mbit/s"}, "most": 10e6}),
        ("memory/streaming", {"metric": "served", "over": {}, "most": 1.0}),
    ],
)
def test_a_bound_beyond_what_is_possible_is_a_defect(name: str, bound: dict[str, object]) -> None:
    """As the throughput of a line of 10 Mbit/s, below 10 Mbit/s."""
    study = next(each for _, each in catalogue.studies() if each.name == name)
    made = Made(study, Within.model_validate({"kind": "within", "says": "", **bound}))
    _, bad = points(made)
    assert made.judged(bad[-1]) != "does not hold", "the farthest possible figure keeps it"


def test_what_findings_rest_on_follows_from_their_points() -> None:
    found = {
        (study.name, check.says[:20]): evidence(study, check)
        for _, study in catalogue.studies()
        for check in study.checks
    }
    kinds = {name: {kind for (of, _), kind in found.items() if of == name} for name, _ in found}
    assert kinds["flash/single-file"] == {"measured"}
    assert kinds["memory/bandwidth"] == {"measured"}
    assert kinds["memory/cache-misses"] == {"simulated"}
    assert kinds["diskless/log"] == {"simulated"}, "the example log is drawn"
    assert kinds["diskless/sizing"] == {"arithmetic"}
    assert kinds["web-model/two-documents"] == {"simulated", "identity of the model"}
    assert found["web-model/larger-documents", "The simulation says "] == "simulated"
    assert found["web-model/larger-documents", "Large ones lose: the"] == "identity of the model"
