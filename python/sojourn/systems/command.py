"""Any command as a server: started on a folder and a port that its words name, ready once it accepts connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sojourn.failure import CouldNotRun
from sojourn.systems.running import Running, accepts, free_port, start_process, wait_until
from sojourn.systems.server import Launch


@dataclass(frozen=True)
class Command:
    """`{root}`, `{address}`, `{port}` and `{work}` in its words are filled in; it has to stay in the foreground."""

    words: Sequence[str]
    values: Mapping[str, object]
    """What else the words may name."""
    scheme: str = "http"
    """Of its URL."""

    name = "command"
    has_architectures = False
    builds_site = True

    def start(self, launch: Launch) -> Running:
        """Starts it; its children end with it, be it a shell that hands no signal on."""
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
