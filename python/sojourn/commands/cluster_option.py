"""The options of every command that can use more than one process or machine, declared once.

A command takes them as one parameter, `cluster: ClusterOption`; `with_cluster_option` spreads that parameter into the
options on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sojourn import interrupts
from sojourn.commands.formats import talk
from sojourn.commands.help import FurtherOption
from sojourn.commands.option_groups import spread

if TYPE_CHECKING:
    from sojourn.cluster.dask_cluster import DaskCluster
    from sojourn.cluster.target import Target
    from sojourn.cluster.tasks import Tasks

PANEL = "More processes and machines"
PROGRESS = "progress.jsonl"
"""The file of a run's folder that holds what its tasks have returned, until the run is whole."""


@dataclass(frozen=True)
class ClusterOption:
    """The cluster that was asked for, if any."""

    target: Target | None

    @contextmanager
    def tasks(self, *, quiet: bool) -> Iterator[Tasks]:
        """Where tasks run while the block lasts: on the cluster, or in this process."""
        from sojourn.cluster.tasks import InProcess

        if self.target is None:
            yield InProcess()
        else:
            with self.opened(quiet=quiet) as cluster:
                yield cluster

    @contextmanager
    def opened(self, *, quiet: bool) -> Iterator[DaskCluster]:
        """The cluster while the block lasts; says where its dashboard is unless quiet."""
        from sojourn.cluster.dask_cluster import opened
        from sojourn.cluster.target import LocalProcesses

        def told(text: str) -> None:
            if not quiet:
                talk.print(text, highlight=False, soft_wrap=True, markup=False)

        assert self.target is not None
        with ExitStack() as stack:
            # Processes of this machine end with the command; hosts have to be tidied.
            is_local = isinstance(self.target, LocalProcesses)
            with interrupts.importing() if is_local else nullcontext():
                cluster = stack.enter_context(opened(self.target, told))
            yield cluster


@contextmanager
def resumed_later(folder: Path | None) -> Iterator[None]:
    """Says that the same command goes on, where its values are kept in a folder and it is cut short."""
    from sojourn.cluster.tasks import ClusterLost

    try:
        yield
    except (KeyboardInterrupt, ClusterLost):
        if folder is not None:
            talk.print(
                f"what was computed is kept in {folder}: the same command with --output {folder} goes on",
                highlight=False,
                soft_wrap=True,
            )
        raise


ClusterText = Annotated[
    str | None,
    FurtherOption(
        "--cluster",
        help="Run on local:N processes, ssh:HOST1,HOST2, the Dask scheduler at tls://HOST:PORT, or a cluster that a "
        "file describes.",
        rich_help_panel=PANEL,
    ),
]
InsecureFlag = Annotated[
    bool,
    FurtherOption(
        "--insecure-cluster",
        help="Accept a scheduler without authentication beyond this machine.",
        rich_help_panel=PANEL,
    ),
]


def read_options(cluster: ClusterText = None, insecure_cluster: InsecureFlag = False) -> ClusterOption:
    """Parses the options."""
    if cluster is None:
        return ClusterOption(None)
    from sojourn.cluster.target import parse

    return ClusterOption(parse(cluster, insecure=insecure_cluster))


def with_cluster_option(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command: its parameter `cluster` becomes the options of a cluster."""
    return spread(command, "cluster", read_options)
