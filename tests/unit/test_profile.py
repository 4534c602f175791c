"""From perf's text to stacks, and from stacks to a flame graph."""

from __future__ import annotations

from sojourn.probe.flame_graph import flame_graph
from sojourn.probe.profile import Profile, folded

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


def test_nothing_sampled_is_an_empty_graph() -> None:
    assert "0 samples" in flame_graph(Profile({}, "cpu-clock", 199), "idle")
