"""Runs any command as a server on a folder and a port in its arguments; it is ready once it accepts connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sojourn.failure import CouldNotRun
from sojourn.systems.running import Running, accepts, free_port, start_process, wait_until
from sojourn.systems.server import Launch


@dataclass(frozen=True)
class Command:
    """A command with `{root}`, `{address}`, `{port}` and `{work}` as placeholders; it must stay in the foreground."""

    words: Sequence[str]
    values: Mapping[str, object]
    """Further placeholders."""
    scheme: str = "http"
    """The scheme of its URL."""

    name = "command"
    has_architectures = False
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it; its children end with it, even if a shell does not forward signals."""
        port = free_port()
        places = {**self.values, "root": launch.root.resolve(), "work": launch.work, "port": port}
        places["address"] = launch.address
        try:
            command = [word.format_map(places) for word in self.words]
        except (KeyError, ValueError, IndexError) as error:
            raise CouldNotRun(
                f"the command names {error}", f"there are {', '.join(places)}; other braces are doubled"
            ) from None
        said = launch.work / "command.log"
        process = start_process(launch.command(command), said, forwards_signals=False)
        wait_until(lambda: accepts(port), process, command[0], said)
        return Running(f"{self.scheme}://{launch.address}:{port}", "unknown", command, process, [process.pid])
