"""Runs a probe on another machine: copies the engine there by ssh, runs it, and leaves nothing behind.

A single connection does it all: the engine arrives on standard input in a temporary folder, which is removed when the
probe ends, even if the connection breaks.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

from sojourn import engine
from sojourn.failure import CouldNotRun
from sojourn.tiers.declaration import Tier

REMOTE_SHELL = (
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 -o ServerAliveCountMax=3 {host} {command}"
)
"""The command template for a remote host: `{host}` and `{command}` are filled in, each as one word. A connection that
is no more ends within ten seconds.
"""
TIMEOUT_SECONDS = 30.0

_SCRIPT = """\
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM PIPE
head -c {size} > "$folder/sojourn-engine" && chmod +x "$folder/sojourn-engine" || exit 2
# What runs in the background has no standard input of its own.
exec 3<&0
"$folder/sojourn-engine" {arguments} 3<&- &
engine=$!
# The end of what we are sent is the end of the connection.
{{ cat <&3; kill -INT $engine; }} > /dev/null 2>&1 &
connection=$!
exec 3<&-
wait $engine
code=$?
kill $connection 2> /dev/null
exit $code
"""


def command(host: str, words: str, remote_shell: str) -> list[str]:
    """The local command that runs a shell line on the host."""
    filled = {"{host}": host, "{command}": words}
    return [filled.get(word, word) for word in shlex.split(remote_shell)]


def probe_command(tier: Tier, arguments: Sequence[str], remote_shell: str) -> list[str]:
    """The local command that takes the engine's bytes on standard input and outputs the probe's samples."""
    assert tier.host is not None
    script = _SCRIPT.format(size=engine.path().stat().st_size, arguments=shlex.join(arguments))
    return command(tier.host, f"sh -c {shlex.quote(script)}", remote_shell)


def target(tier: Tier, remote_shell: str) -> list[str]:
    """The probe options that select the tier's processes on its machine.

    Raises:
        CouldNotRun: the machine cannot be reached, or has no such processes.
    """
    if tier.kind in ("port", "pid"):
        return [f"--{tier.kind}", tier.value]
    if tier.kind == "cgroup":
        # Its processes, and those of the groups below it.
        asked = f"find {shlex.quote(tier.value)} -name cgroup.procs -exec cat {{}} +"
    elif tier.kind == "command":
        # The shells that search have the expression, and this word, in their own command lines.
        asked = (
            f"pgrep -f -- {shlex.quote(tier.value)} | while read pid; do "
            "case $(tr '\\0' ' ' < /proc/$pid/cmdline) in *pgrep*) ;; ?*) echo $pid ;; esac; done 2> /dev/null"
        )
    else:
        asked = f"systemctl show --value --property MainPID -- {shlex.quote(tier.value)}"
    assert tier.host is not None
    words = command(tier.host, f"sh -c {shlex.quote(asked)}", remote_shell)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CouldNotRun(f"{tier.host} cannot be reached: {error}", "try ssh there by hand") from error
    pids = [word for word in done.stdout.split() if word.isdecimal() and word != "0"]
    if not pids:
        said = done.stderr.strip().splitlines()
        raise CouldNotRun(f"tier {tier} has no process{': ' + said[-1] if said else ''}", "is it running there?")
    return [word for pid in pids for word in ("--pid", pid)]
