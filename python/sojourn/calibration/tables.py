"""Reads tables of points from CSV, JSON (a list of objects) and Parquet, and checks the columns that estimators need.

Every column name ends in its unit. Error messages give the column and the row of a missing or invalid value.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars

from sojourn.calibration.estimate import FloatArray
from sojourn.failure import CouldNotRun
from sojourn.text import toml

ROWS_MAX = 5_000_000
NUMBER_MAX = 1e15
"""The largest number in a fitted column: microseconds of thirty years, bytes of a petabyte."""
POSITIVE_MIN = 1e-15
"""The smallest positive number: the squares of smaller ones would underflow."""
READERS: dict[str, Callable[[Path], polars.DataFrame]] = {
    ".csv": polars.read_csv,
    ".json": polars.read_json,
    ".parquet": polars.read_parquet,
}


class Table:
    """A table of points, with its source."""

    def __init__(self, path: Path, frame: polars.DataFrame) -> None:
        self.path = path
        self.frame = frame

    @classmethod
    def read(cls, path: Path) -> Table:
        """Reads a table by its file extension.

        Raises:
            CouldNotRun: if it is missing, malformed, empty or larger than `ROWS_MAX` rows.
        """
        if path.suffix in (".csv", ".json") and _is_utf_16(path):
            raise CouldNotRun(f"{path} is text in UTF-16", "save it as UTF-8")
        if path.suffix not in READERS:
            raise CouldNotRun(
                f"{path} is neither a run folder nor a table", f"a table ends in one of {', '.join(READERS)}"
            )
        try:
            frame = READERS[path.suffix](path)
        except OSError as error:
            raise CouldNotRun(
                f"cannot read {path}: {error.strerror or error}", "give a run folder or a table"
            ) from error
        except polars.exceptions.PolarsError as error:
            said = str(error).splitlines()[0]
            raise CouldNotRun(
                f"{path} is not a {path.suffix[1:]} table: {said}", "look at the file's first lines"
            ) from error
        if not 1 <= frame.height <= ROWS_MAX:
            raise CouldNotRun(f"{path} has {frame.height:,} rows: 1 to {ROWS_MAX:,} can be fitted")
        return cls(path, frame)

    def has(self, *names: str) -> bool:
        """Returns true if all these columns exist."""
        return all(name in self.frame.columns for name in names)

    def positive(self, name: str) -> FloatArray:
        """A column of positive numbers; shape (rows,)."""
        return self.numbers(name, 0.0, inclusive=False)

    def _first_of_none(self, name: str) -> str:
        """The first value that is no number, for a message."""
        numbers = self.frame[name].cast(polars.Float64, strict=False)
        for row, (value, number) in enumerate(zip(self.frame[name], numbers, strict=True), 1):
            if value is not None and number is None:
                return f": row {row} has {value!r}"
        return ""

    def numbers(self, name: str, least: float, inclusive: bool = True) -> FloatArray:
        """A column of finite numbers from `least` on; shape (rows,)."""
        try:
            values = self.frame[name].cast(polars.Float64, strict=True).to_numpy()
        except polars.exceptions.PolarsError as error:
            raise CouldNotRun(
                f"{self.path}: column {name} is not of numbers{self._first_of_none(name)}",
                "write every value in the unit of the column's name, without unit or thousands separator",
            ) from error
        enough = (values >= least) if inclusive else (values > least)
        good = enough & (np.abs(values) <= NUMBER_MAX) & ((values == 0) | (np.abs(values) >= POSITIVE_MIN))
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            bound = f"{'at least' if inclusive else 'above'} {least:g}"
            if enough[row]:
                bound = f"from {POSITIVE_MIN:g} to {NUMBER_MAX:g}" + (", or 0" if least <= 0 and inclusive else "")
            found = "is empty" if np.isnan(values[row]) else f"has {values[row]:g}"
            raise CouldNotRun(
                f"{self.path}: {name} must be {bound}, but row {row + 1} {found}",
                "leave out rows without a measurement",
            )
        return np.array(values, dtype=float)

    def texts(self, name: str, default: str) -> list[str]:
        """A column of names; the default in every row if it is missing."""
        if name not in self.frame.columns:
            return [default] * self.frame.height
        column = self.frame[name].cast(polars.String)
        if column.null_count():
            raise CouldNotRun(f"{self.path}: {name} is empty in {column.null_count()} rows")
        return column.to_list()


def _is_utf_16(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return toml.is_utf_16(file.read(2))
    except OSError:
        # Reading the file gives the reason.
        return False
