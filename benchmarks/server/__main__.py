"""`benchmarks/server/bench`: our server beside others."""

from __future__ import annotations

from benchmarks.server import conditions
from benchmarks.server.cell import load, serving
from benchmarks.server.command import Command
from benchmarks.server.competitors import competitors
from benchmarks.server.outcome import Outcome
from benchmarks.server.runner import Benchmark

COMMAND = Command(
    benchmark=Benchmark(
        program="benchmarks/server/bench",
        documents=conditions.documents(),
        site_bytes_max=100_000_000,
        serving=serving,
        load=load,
        outcome=Outcome,
    ),
    conditions=conditions.CONDITIONS,
    everybody=competitors,
    kind="servers",
    about="Measure our server's architectures beside other servers and the null responder.",
    example="--only keep-alive-500B,close-* --servers amped,nginx,null-*",
)

if __name__ == "__main__":
    COMMAND.run()
