"""`sojourn import-jmt` and `export-jmt`: convert models of Java Modelling Tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, print_json, talk
from sojourn.failure import CouldNotRun


def register(app: typer.Typer) -> None:
    app.command("import-jmt")(_import)
    app.command("export-jmt")(_export)


def _import(
    model: Annotated[Path, typer.Argument(help="A model of JMT (.jsimg or .jmva).")],
    output: Annotated[Path | None, typer.Option(help="Write the system file here instead of printing it.")] = None,
    output_format: FormatOption = Format.text,
) -> None:
    """Convert a model of Java Modelling Tools to a system file.

    The command refuses features that a system file cannot express, and warns where the meaning changes.

    Example: sojourn import-jmt shop.jsimg --output shop.toml && sojourn predict shop.toml
    """
    from sojourn import jmt

    translation = jmt.read(model)
    _hand_over(translation.text, translation.warnings, output, output_format, "system_file")


def _export(
    system: Annotated[Path, typer.Argument(help="The system file (TOML).")],
    output: Annotated[Path, typer.Argument(help="The model to write: NAME.jsimg to simulate, NAME.jmva for MVA.")],
    output_format: FormatOption = Format.text,
) -> None:
    """Convert a system file to a model of Java Modelling Tools.

    The command refuses features that JMT cannot express, and warns where the meaning changes.

    Example: sojourn export-jmt studies/systems/public-site.toml site.jsimg
    """
    from sojourn import jmt
    from sojourn.queueing import System, SystemFileError

    try:
        described = System.from_file(system)
    except SystemFileError as error:
        raise CouldNotRun(str(error)) from error
    except OSError as error:
        raise CouldNotRun(f"cannot read {system}: {error.strerror}", "give a system file") from error
    translation = jmt.write(described, output)
    _hand_over(translation.text, translation.warnings, output, output_format, "model")


def _hand_over(text: str, warnings: list[str], output: Path | None, output_format: Format, key: str) -> None:
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CouldNotRun(f"cannot write {output}: {error.strerror}", "give another place") from error
    if output_format is Format.json:
        print_json({"warnings": warnings, key: text})
        return
    for warning in warnings:
        talk.print(f"warning: {warning}", style="yellow", soft_wrap=True, highlight=False)
    if output is None:
        print(text, end="")
