"""`sojourn plan web99`: sizes RAM, disk, processor and network for a SPECweb99-like file set."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sojourn.commands.formats import Format, FormatOption, data, print_json
from sojourn.failure import CouldNotRun
from sojourn.planning.answers import as_json
from sojourn.planning.web99.file_set import CONNECTIONS_MAX
from sojourn.planning.web99.placement import Disk
from sojourn.planning.web99.sizing import Processor, size
from sojourn.report.plan.web99_terminal import print_sizing
from sojourn.text import quantity


def register(group: typer.Typer) -> None:
    group.command("web99")(_web99)


def _web99(
    ram: Annotated[str | None, typer.Option(help="RAM for files, such as 4GiB: compute the connections.")] = None,
    connections: Annotated[
        int | None,
        typer.Option(min=1, max=CONNECTIONS_MAX, help="The number of connections: compute RAM, disk and network."),
    ] = None,
    local: Annotated[
        str | None, typer.Option("--local-disk", help="Throughput of the local disk, such as 17.7MB/s; none: no disk.")
    ] = "17.7MB/s",
    remote: Annotated[str | None, typer.Option("--remote-disk", help="Throughput of remote files (NFS).")] = "14.8MB/s",
    access_time: Annotated[
        str | None,
        typer.Option(help="Access time of both disks, such as 14ms, if not part of the rates [default: 0]."),
    ] = None,
    cores: Annotated[
        float, typer.Option(min=0.01, help="Processor cores of the server, with --cpu-time.", metavar="N")
    ] = 1.0,
    cpu_time: Annotated[
        str | None,
        typer.Option(
            help="CPU time of the server per request, as 60us: server.cpu_per_request of a load with the preset web99; "
            "without it the processor is left out."
        ),
    ] = None,
    per_connection: Annotated[str, typer.Option(help="Bandwidth per connection, including overhead.")] = "400kbit/s",
    kilobyte: Annotated[Literal["1024", "1000"], typer.Option(help="Bytes in a kilobyte of the file set.")] = "1024",
    output_format: FormatOption = Format.text,
) -> None:
    """Size RAM, disk, processor and network for a SPECweb99-like file set: files placed optimally, and by a page cache.

    The file set grows with the number of connections, so RAM holds the files of a limited number; a disk that serves
    the least popular bytes raises it. The default rates were measured by section 5 of the study of diskless servers
    for its largest files; notes point out corrections to its arithmetic.

    Example: sojourn plan web99 --ram 4GiB --local-disk 17.7MB/s --remote-disk 14.8MB/s
    """
    if ram is None and connections is None:
        raise CouldNotRun("neither --ram nor --connections is given", "for example --ram 4GiB, or --connections 3800")
    processor = None if cpu_time is None else Processor(cores, quantity.seconds(cpu_time))
    if processor is not None and processor.seconds_per_request <= 0:
        raise CouldNotRun("--cpu-time is 0", "give the CPU time that a request takes, such as 60us")
    seconds = 0.0 if access_time is None else quantity.seconds(access_time)
    disks = [
        Disk(name, _bytes_per_second(rate), seconds)
        for name, rate in (("local", local), ("remote", remote))
        if rate is not None and rate != "none"
    ]
    sizing = size(
        ram_bytes=None if ram is None else quantity.size_bytes(ram),
        connections=connections,
        disks=disks,
        connection_bits_per_second=quantity.bits_per_second(per_connection),
        kilobyte=int(kilobyte),
        processor=processor,
    )
    if output_format is Format.json:
        print_json(as_json(sizing))
    else:
        print_sizing(sizing, data)


def _bytes_per_second(text: str) -> float:
    if not text.endswith("/s"):
        raise CouldNotRun(f"{text!r} is not a disk throughput", "write it in bytes per second, as 17.7MB/s, or none")
    return float(quantity.size_bytes(text.removesuffix("/s")))
