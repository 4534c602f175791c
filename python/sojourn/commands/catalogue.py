"""The catalogue of commands in the groups and the order of the help: the module that registers each, and its summary.

It imports none of the commands, so that the help appears at once.
"""

from __future__ import annotations

from collections.abc import Iterator

ABOUT = "How much traffic can this web system take, what is its bottleneck, and\nwhat should change?"
EXIT_CODES = """\
Exit codes: 0 ran, 1 ran with failures or was interrupted, 2 could not run;
130 interrupted before it began."""

FIRST_STEPS = {
    "sojourn assess access.log": "find how much traffic a site can take",
    "sojourn load http://127.0.0.1:8080/": "measure what clients of a server see",
    "sojourn example-log example.log": "make a log to try it on",
}
GROUPS = {
    "From a log to an answer": {
        "assess": ("assess", "Find a site's capacity, its bottleneck, and what to change."),
        "trace": ("trace", "Import and characterise an access log: rates, sizes, sessions."),
        "endpoints": ("endpoints", "Group a log's requests by endpoint: patterns of paths, queries."),
        "report": ("report", "Redraw a run's report.html and print its summary."),
        "example-log": ("example_log", "Write an access log from published statistics of web traffic."),
    },
    "Servers and what they serve": {
        "serve": ("data_plane", "Serve a folder over HTTP."),
        "proxy": ("data_plane", "Forward requests to other servers, and cache their responses."),
        "stream": ("data_plane", "Stream films to players: RTSP, video on demand."),
        "web99": ("data_plane", "Answer the dynamic requests of load --preset web99."),
        "fileset": ("fileset", "Write a file set for a workload, with a manifest and file list."),
        "media": ("media", "Make test films of a given bit rate with ffmpeg."),
    },
    "Load": {
        "load": ("load", "Load a server and measure what its clients or viewers see."),
        "scenario": ("data_plane", "Check a scenario, or make one of a browser's recording (HAR)."),
        "replay": ("replay", "Replay a log's or a trace's sessions."),
        "compare": ("compare", "Compare load runs: what changed, and is it more than chance?"),
        "link": ("data_plane", "Run a command behind a slow, long or lossy link."),
    },
    "Measure a server or the machine": {
        "probe": ("probe", "Sample what processes use: CPU, memory, faults, disk, queues."),
        "join-probe": ("join_probe", "Join a server's probe recording to a run by time."),
        "misses": ("misses", "Count a server's instructions and cache misses under valgrind."),
        "memory": ("memory", "Measure memory bandwidth by working set and stride, and latency."),
        "confine": ("data_plane", "Run a program with less memory, a slower disk or processor."),
    },
    "Models and plans": {
        "predict": ("predict", "Predict response times, utilisations and the bottleneck."),
        "simulate": ("simulate", "Simulate a system of stations, with confidence intervals."),
        "plan": ("plan", "Plan capacity: what a target needs, costs, and how long it lasts."),
        "ui": ("ui", "Draw a system in the browser, with answers; compare runs."),
        "fit": ("fit", "Fit service demands to measurements, and write a system file."),
        "cache": ("cache", "Simulate caches on a trace: hit ratio by policy and size."),
        "import-jmt": ("jmt", "Convert a model of Java Modelling Tools to a system file."),
        "export-jmt": ("jmt", "Convert a system file to a model of Java Modelling Tools."),
    },
    "The literature": {
        "study": ("study", "Reproduce tables and figures of the literature on this machine."),
    },
    "This program": {
        "completion": ("shell", "Print the completion script of a shell."),
        "man": ("shell", "Write the manual pages, one per command."),
    },
}
"""The summary of each command, with its module below `sojourn.commands`."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def first_steps() -> str:
    """What `sojourn` says without a command."""
    width = max(map(len, FIRST_STEPS))
    steps = (f"  {command:<{width}}  {does}" for command, does in FIRST_STEPS.items())
    return "\n".join((ABOUT, "", "Begin with one of these:", *steps, "", "sojourn --help lists all commands.")) + "\n"


def help_text() -> str:
    """The help text of `sojourn` itself."""
    return "\n".join(_help_lines()) + "\n"


def _help_lines() -> Iterator[str]:
    yield from ("Usage: sojourn COMMAND [OPTIONS]", "", ABOUT, "Start with `sojourn assess access.log`.")
    width = max(map(len, COMMANDS))
    for title, group in GROUPS.items():
        yield from ("", f"{title}:")
        yield from (f"  {name:<{width}}  {summary}" for name, (_, summary) in group.items())
    yield from (
        "",
        "Options:",
        f"  {'--version':<{width}}  Show the version.",
        f"  {'--help, -h':<{width}}  Show this.",
    )
    yield from ("", "sojourn COMMAND --help shows a command's options, with an example.", EXIT_CODES)
