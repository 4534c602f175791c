"""Prints the sizing of a SPECweb99-like server."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sojourn.planning.web99.sizing import PAGE_CACHE, Sizing
from sojourn.report.terminal import print_pairs, table
from sojourn.text import format


def print_sizing(sizing: Sizing, console: Console) -> None:
    """Prints RAM alone, then each disk with the schemes, then differences from the study."""
    rows = [("a connection", f"{format.bandwidth(sizing.connection_bits_per_second)} sustained")]
    if sizing.ram_bytes is not None:
        alone = format.count(sizing.ram_alone_connections)
        rows.append((f"{format.size(sizing.ram_bytes)} of RAM", f"{alone} connections without a disk"))
    if sizing.connections is not None:
        files = f"{format.size(sizing.file_set_bytes)} in {format.number(sizing.directories, 4)} directories"
        rows.append(
            (f"{format.count(sizing.connections)} connections", f"{files}, class 3 {format.size(sizing.class3_bytes)}")
        )
        cards = f"{sizing.network_cards} gigabit card" + ("s" if sizing.network_cards != 1 else "")
        least = format.bandwidth(sizing.network_minimum_bits_per_second)
        rows.append(("network", f"{format.bandwidth(sizing.network_bits_per_second)} ({least} at the least): {cards}"))
    if sizing.processor_connections is not None:
        requests = (
            f"{format.count(sizing.processor_connections)} connections at {sizing.requests_per_second:.2f} requests/s"
        )
        use = sizing.processor_utilisation
        busy = "" if use is None else f"; {format.count(sizing.connections)} use {format.percent(use)} of it"
        rows.append(("processor", f"{requests} each{busy}"))
    print_pairs(rows, console)
    if sizing.disks:
        _print_disks(sizing, console)
    if sizing.remote_loss_fraction is not None:
        console.print(f"the slower disk carries {format.percent(sizing.remote_loss_fraction)} fewer connections")
    if sizing.ram_bytes is not None and sizing.disks:
        console.print(Text(f"note: {PAGE_CACHE}", style="dim"))
    for correction in sizing.corrections:
        console.print(Text(f"note: {correction}", style="dim"))


def _print_disks(sizing: Sizing, console: Console) -> None:
    shown = table("", *(disk.name for disk in sizing.disks))
    disks = sizing.disks
    shown.add_row("rate", *(f"{format.number(disk.megabytes_per_second)} MB/s" for disk in disks))
    shown.add_row("class 3 on disk: connections", *(format.count(disk.class3_on_disk_connections) for disk in disks))
    shown.add_row("    RAM for classes 0 to 2", *(format.size(disk.class3_on_disk_ram_bytes) for disk in disks))
    shown.add_row("    disk", *(format.size(disk.class3_on_disk_disk_bytes) for disk in disks))
    if sizing.ram_bytes is not None:
        best = [disk.optimal_placement for disk in disks]
        ram = format.size(sizing.ram_bytes)
        shown.add_row(f"optimal with {ram}: connections", *(format.count(disk.optimal_connections) for disk in disks))
        shown.add_row("    files on disk", *(format.count(each.files_on_disk if each else None) for each in best))
        shown.add_row("    disk", *(format.size(each.disk_bytes if each else None) for each in best))
        shown.add_row(
            "    accesses to disk", *(format.percent(each.disk_access_fraction if each else None) for each in best)
        )
        shown.add_row(
            "    bytes from disk", *(format.percent(each.disk_byte_fraction if each else None) for each in best)
        )
    if sizing.ram_bytes is not None:
        ram = format.size(sizing.ram_bytes)
        shown.add_row(f"page cache of {ram}: connections", *(format.count(disk.cached_connections) for disk in disks))
        used = [disk.page_cache for disk in disks]
        with_connections = "" if sizing.connections is None else f" of {sizing.connections:,}"
        shown.add_row(
            f"    disk utilisation{with_connections}",
            *(format.percent(each.disk_utilisation if each else None) for each in used),
        )
        shown.add_row(
            "    bytes from disk", *(format.percent(each.disk_byte_fraction if each else None) for each in used)
        )
    if sizing.connections is not None:
        placed = [disk.placement for disk in disks]
        shown.add_row(
            f"{sizing.connections:,} connections: RAM", *(format.size(disk.ram_needed_bytes) for disk in disks)
        )
        shown.add_row("    disk", *(format.size(each.disk_bytes if each else None) for each in placed))
        shown.add_row(
            "    bytes from disk", *(format.percent(each.disk_byte_fraction if each else None) for each in placed)
        )
    console.print(shown)
