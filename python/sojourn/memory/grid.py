"""Chooses working sets and strides: powers of two, and values between them at higher densities."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.failure import CouldNotRun

WORD_BYTES = 8
KERNELS = {
    "load-sum": "load every word and add it up",
    "const-store": "store a constant in every word",
    "copy-strided-load": "load with the stride, store side by side",
    "copy-strided-store": "load side by side, store with the stride",
    "copy-block": "the library's copy, stride 1 alone",
}
"""The kernels by name, with their descriptions, in display order."""

WORKING_SET_BYTES_MIN = 512
WORKING_SET_BYTES_MAX = 2**30
STRIDES = (1, 2, 4, 8, 16, 32, 64, 128, 192)
STRIDES_FINE = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 24, 31, 32, 48, 63, 64, 96, 127, 128, 192)
STRIDES_QUICK = (1, 8, 64)
WORKING_SET_BYTES_MAX_QUICK = 64 * 2**20
REPETITIONS = 5
REPETITIONS_QUICK = 3


@dataclass(frozen=True)
class Grid:
    """The measurements to make; working sets in bytes, strides in words of 8 bytes."""

    working_sets: tuple[int, ...]
    strides: tuple[int, ...]
    repetitions: int


def grid(
    density: str,
    smallest: int | None,
    largest: int | None,
    strides: tuple[int, ...] | None,
    repetitions: int | None,
) -> Grid:
    """The grid of a density (`quick`, `normal` or `fine`), extended by the values requested explicitly."""
    quick = density == "quick"
    low = smallest or WORKING_SET_BYTES_MIN
    high = largest or (WORKING_SET_BYTES_MAX_QUICK if quick else WORKING_SET_BYTES_MAX)
    if low > high:
        raise CouldNotRun(f"the smallest working set ({low} B) is above the largest ({high} B)", "swap --from and --to")
    between = {"quick": (1.0,), "normal": (1.0,), "fine": (1.0, 1.5)}[density]
    factor = 4 if quick else 2
    working_sets = []
    each = float(low)
    while each <= high:
        # A multiple of 16, so that each half of a copy has whole words.
        working_sets += [int(each * part) // 16 * 16 for part in between if each * part <= high]
        each *= factor
    chosen = {"quick": STRIDES_QUICK, "normal": STRIDES, "fine": STRIDES_FINE}[density]
    return Grid(tuple(working_sets), strides or chosen, repetitions or (REPETITIONS_QUICK if quick else REPETITIONS))
