"""Targets of a cluster: what --cluster may name; and tasks in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.assessment.pipeline import crowded
from sojourn.cluster.target import LocalProcesses, Managed, Scheduler, SshHosts, parse
from sojourn.cluster.tasks import InProcess, in_order
from sojourn.failure import CouldNotRun


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("local:2", LocalProcesses(2)),
        ("ssh:one,user@two", SshHosts(("one", "user@two"))),
        ("tls://scheduler:8786", Scheduler("tls://scheduler:8786")),
        ("tls://[fe80::1]:8786/", Scheduler("tls://[fe80::1]:8786")),
        ("tcp://127.0.0.1:8786", Scheduler("tcp://127.0.0.1:8786")),
        ("tcp://[::1]:8786", Scheduler("tcp://[::1]:8786")),
        ("tcp://localhost:8786", Scheduler("tcp://localhost:8786")),
    ],
)
def test_what_a_cluster_may_be(text: str, target: object) -> None:
    assert parse(text) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", "local:", "local:0", "local:many", "local:99999", "ssh:", "ssh:-oProxyCommand=id", "ssh:a,,b", "tls://"),
        *("tls://x", "tls://x:99999", "http://x:1", "tls://u@x:8786/..", "no.toml", "tcp://10.0.0.1", "tls://x:86;id"),
    ],
)
def test_clusters_that_are_none(text: str) -> None:
    with pytest.raises(CouldNotRun):
        parse(text)


@pytest.mark.parametrize("address", ["tcp://scheduler:8786", "tcp://10.0.0.1:8786", "tcp://[2001:db8::1]:8786"])
def test_a_scheduler_that_anybody_commands_is_refused(address: str) -> None:
    with pytest.raises(CouldNotRun, match="no authentication") as refused:
        parse(address)
    assert "--insecure-cluster" in str(refused.value)
    assert parse(address, insecure=True) == Scheduler(address)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ('kind = "local"\nprocesses = 3', LocalProcesses(3)),
        (
            'kind = "ssh"\nhosts = ["a", "b"]\n[options]\nremote_python = "/opt/python"',
            SshHosts(("a", "b"), {"remote_python": "/opt/python"}),
        ),
        ('kind = "scheduler"\naddress = "tls://a:8786"', Scheduler("tls://a:8786")),
        (
            'kind = "slurm"\nworkers = 8\n[options]\ncores = 4\nmemory = "8GB"',
            Managed("slurm", 8, {"cores": 4, "memory": "8GB"}),
        ),
    ],
)
def test_files_that_describe_clusters(tmp_path: Path, text: str, target: object) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    assert parse(str(file)) == target


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind = "abacus"', "not a kind"),
        ('kind = "ssh"', "needs hosts"),
        ('kind = "ssh"\nhosts = "a"', "needs hosts"),
        ('kind = "slurm"\nworkers = true', "workers is not a number"),
        ('kind = "slurm"\nworkers = 2\noptions = 1', "options is not a table"),
        ('kind = "local"\nprocesses = 2\ncolour = "red"', "no key 'colour'"),
        ('kind = "scheduler"\naddress = "tcp://10.0.0.1:8786"', "no authentication"),
        ('kind = "kubernetes"\nworkers = 2', "NetworkPolicy"),
        ("kind = ", "cluster.toml"),
    ],
)
def test_files_that_describe_none(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    with pytest.raises(CouldNotRun, match=said):
        parse(str(file))


def test_in_this_process_tasks_run_in_order_and_no_more_than_are_asked_for() -> None:
    drawn = []

    def numbers() -> Iterator[tuple[str]]:
        for number in ("4", "9", "x", "16"):
            drawn.append(number)
            yield (number,)

    outcomes = InProcess().each(int, numbers())
    assert next(outcomes).result() == 4
    assert drawn == ["4"]
    assert next(outcomes).result() == 9
    with pytest.raises(ValueError, match="'x'"):
        next(outcomes).result()
    assert next(outcomes).result() == 16
    assert in_order(InProcess().each(int, [("2",), ("1",)])) == [2, 1]
    with pytest.raises(ValueError, match="'x'"):
        in_order(InProcess().each(int, [("1",), ("x",)]))


def test_workers_without_a_core_of_their_own_are_told_before_an_assessment() -> None:
    assert crowded(LocalProcesses(3), 4) is None
    assert crowded(LocalProcesses(1), 1) is None, "without two cores nothing is kept apart, which is told itself"
    assert crowded(SshHosts(("load1", "load2")), 2) is None
    said = crowded(LocalProcesses(2), 2)
    assert said is not None
    assert said.startswith("2 workers generate load on this machine of 2 cores, one of which is the server's")
