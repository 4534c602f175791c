"""The evidence behind a finding: measured, simulated or calculated points; repetitions do not change the last.

It follows from the systems at the points. For a comparison of several kinds the first in the order of `EVIDENCE`
counts: where a simulation is compared with a formula, only the simulation can vary.
"""

from __future__ import annotations

from typing import get_args

from sojourn.study.declarations import SIMULATION, SYSTEM, Check, Evidence, SystemEntry
from sojourn.study.document import Study
from sojourn.study.logs import is_made
from sojourn.study.points import matches

EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)
_OURS = ("sojourn", "sojourn-engine")
_OF_COMMANDS: dict[str, Evidence] = {
    # Valgrind simulates the caches.
    "misses": "simulated",
    "simulate": "simulated",
    "predict": "identity of the model",
    "plan": "arithmetic",
}
"""The evidence of our own commands; all others measure."""


def evidence(study: Study, check: Check) -> Evidence:
    """The kind of evidence behind a check."""
    asked = [
        system
        for system in study.systems
        if any(matches({SYSTEM: system.name}, {SYSTEM: where.get(SYSTEM, system.name)}) for where in check.wheres)
    ]
    found = {_of_points(study, system) for system in asked}
    return next((each for each in EVIDENCE if each in found), "measured")


def _of_points(study: Study, system: SystemEntry) -> Evidence:
    if system.solver is not None:
        return "simulated" if system.solver == SIMULATION else "identity of the model"
    if study.program is None or not study.is_program(system):
        return "measured"
    if study.program.evidence is not None:
        return study.program.evidence
    program, command, *_ = (*system.run, "")
    if program not in _OURS:
        return "measured"
    if command == "trace" and is_made(study.log):
        # Such a log is drawn from distributions, so replaying it does not make it a measurement.
        return "simulated"
    return _OF_COMMANDS.get(command, "measured")
