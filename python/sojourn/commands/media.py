"""`sojourn media`: makes test films of a given bit rate."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json, talk
from sojourn.commands.progress import Stages
from sojourn.report.terminal import print_pairs
from sojourn.text import format
from sojourn.workload import media


class Codec(StrEnum):
    h264 = "h264"
    h265 = "h265"


def register(app: typer.Typer) -> None:
    app.command("media")(_media)


def _media(
    output: Annotated[Path, typer.Option(help="The folder to write; existing films are kept.")],
    rate: Annotated[str, typer.Option(help="Bit rate of picture and sound together: 56k, 300k, 2M.")] = "300k",
    seconds: Annotated[float, typer.Option(help="The length of a film in seconds.")] = 30.0,
    copies: Annotated[int, typer.Option(help="The number of copies, each a separate file.")] = 1,
    codec: Annotated[Codec, typer.Option(help="The video codec; the sound is AAC.")] = Codec.h264,
    output_format: FormatOption = Format.text,
) -> None:
    """Make test films of a given bit rate with ffmpeg, and print the rate that ffprobe measures.

    The film is encoded once and copied: the copies are different files for the page cache, but look the same to
    viewers. `filelist` lists them all.

    Example: sojourn media --rate 300k --seconds 60 --copies 200 --output films
    """
    film = media.Film(media.bits_per_second(rate), seconds, codec.value)
    with Stages(talk, quiet=output_format is Format.json) as stages:
        stages.begin("films")
        measured, files, written = media.make(film, output, copies, stages.update)
        stages.done(f"{written:,} of {copies:,} files written in {output}")
    deviation = measured.bits_per_second / film.bits_per_second - 1
    if abs(deviation) > media.RATE_TOLERANCE:
        talk.print(f"warning: the film's rate is {deviation:+.0%} from what was asked for", highlight=False)
    if output_format is Format.json:
        rates = {"bits_per_second": measured.bits_per_second, **asdict(measured)}
        print_json(
            {"film": asdict(film), "measured": rates, "output": str(output), "files": copies, "files_written": written}
        )
        return
    pairs = [
        ("Rate asked for", f"{film.bits_per_second / 1000:,.0f} kbit/s"),
        ("Rate measured", f"{measured.bits_per_second / 1000:,.1f} kbit/s"),
        ("of which video", f"{measured.video_bits_per_second / 1000:,.1f} kbit/s"),
        ("of which audio", f"{measured.audio_bits_per_second / 1000:,.1f} kbit/s"),
        ("Length", f"{measured.seconds:.2f} s"),
        ("Pictures", f"{measured.pictures:,}, {measured.keyframes:,} to begin with"),
        ("A file", format.size(measured.bytes)),
        ("Files", format.count(len(files.files))),
        ("Total size", format.size(files.total_bytes)),
        ("Written", format.count(written)),
    ]
    print_pairs(pairs, data)
