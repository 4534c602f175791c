"""Reads and writes models of Java Modelling Tools: `.jsimg` (simulation) and `.jmva` (mean value analysis).

Only features that both sides have are translated. Features without a counterpart are refused by name, and a changed
meaning causes a warning by name; nothing is dropped silently. `jsimg_*` and `jmva_*` are the two formats, `laws` the
distributions, `chain` the conversion of routes to routing probabilities, `outline` a system in the form that the
writers need.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from sojourn.failure import CouldNotRun
from sojourn.jmt import jmva_reader, jmva_writer, jsimg_reader, jsimg_writer
from sojourn.jmt.translation import Translation
from sojourn.queueing import System

FILE_BYTES_MAX = 16 * 2**20
READERS: dict[str, Callable[[Element, str], Translation]] = {".jsimg": jsimg_reader.read, ".jmva": jmva_reader.read}
WRITERS: dict[str, Callable[[System, str], Translation]] = {".jsimg": jsimg_writer.write, ".jmva": jmva_writer.write}


def read(path: Path) -> Translation:
    """Translates a model; the result's `text` is a system file.

    Raises:
        CouldNotRun: if the file cannot be read, or has features that a system file cannot express.
    """
    suffix = _suffix(path)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise CouldNotRun(f"{path} is larger than {FILE_BYTES_MAX:,} bytes", "save it without its results")
        root = ElementTree.fromstring(path.read_bytes())
    except OSError as error:
        raise CouldNotRun(f"cannot read {path}: {error.strerror}", "give a .jsimg or .jmva file") from error
    except ElementTree.ParseError as error:
        raise CouldNotRun(f"{path} is not XML: {error}", "save it from JMT again") from error
    return READERS[suffix](root, path.stem)


def write(system: System, path: Path) -> Translation:
    """Translates a system for a file of this name; the result's `text` is the model. Writes nothing.

    Raises:
        CouldNotRun: if the system has features that the format cannot express.
    """
    return WRITERS[_suffix(path)](system, path.stem)


def _suffix(path: Path) -> str:
    if path.suffix not in READERS:
        raise CouldNotRun(f"{path} is not a model of JMT by its name", f"the name ends in {' or '.join(READERS)}")
    return path.suffix
