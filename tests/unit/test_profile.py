"""From perf's text to stacks, and from stacks to a flame graph."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from sojourn.probe.profile import Profile, folded, tree
from sojourn.report.probe.flame_graph import flame_graph

SCRIPT = """\
nginx
\tffffffff81a00010 tcp_sendmsg+0x10 ([kernel.kallsyms])
\t    7f0000001234 writev+0x14 (/usr/lib/libc.so.6)
\t    55550000abcd [unknown] (/usr/sbin/nginx)

nginx
\tffffffff81a00020 tcp_sendmsg+0x20 ([kernel.kallsyms])
\t    7f0000001234 writev+0x14 (/usr/lib/libc.so.6)
\t    55550000abcd [unknown] (/usr/sbin/nginx)

sojourn-engine
\t    555500001111 sojourn_server::event_loop::run::h0123456789abcdef+0x1 (/usr/bin/sojourn-engine)
"""


def test_equal_stacks_are_counted_together_whatever_the_offsets() -> None:
    stacks = folded(SCRIPT.splitlines())
    assert stacks == {
        ("nginx", "[nginx]", "writev", "tcp_sendmsg"): 2,
        ("sojourn-engine", "sojourn_server::event_loop::run"): 1,
    }


def test_widths_are_shares() -> None:
    drawn = flame_graph(Profile(folded(SCRIPT.splitlines()), "cpu-clock", 199), "where <time> goes")
    assert "nginx: 67 %, 2 samples" in drawn
    assert "where &lt;time&gt; goes" in drawn
    assert "sojourn_server::event_loop::run: 33 %, 1 samples" in drawn
    assert "no symbols, so shown whole in brackets: nginx" in drawn


def test_nothing_sampled_is_an_empty_graph() -> None:
    assert "0 samples" in flame_graph(Profile({}, "cpu-clock", 199), "idle")


def test_a_server_is_watched_with_its_workers() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], process_group=0) as master:
        try:
            until = time.monotonic() + 30
            while len(tree([master.pid])) < 2:
                assert time.monotonic() < until
                time.sleep(0.02)
            assert tree([master.pid])[0] == master.pid
        finally:
            os.killpg(master.pid, signal.SIGKILL)
    assert tree([master.pid]) == []
