"""`benchmarks/proxy/bench`: our caching proxy beside others."""

from __future__ import annotations

from benchmarks.proxy import conditions
from benchmarks.proxy.cell import Cell, load, serving
from benchmarks.proxy.competitors import competitors
from benchmarks.proxy.outcome import Outcome
from benchmarks.server.command import Command
from benchmarks.server.competitors import null_responder_path
from benchmarks.server.runner import Benchmark

COMMAND = Command(
    benchmark=Benchmark(
        program="benchmarks/proxy/bench",
        documents=conditions.documents(),
        site_bytes_max=10_000_000,
        serving=serving,
        load=load,
        outcome=Outcome,
        cell=Cell,
    ),
    conditions=conditions.CONDITIONS,
    everybody=competitors,
    kind="proxies",
    about="Measure our caching proxy's architectures beside other proxies and the null responder.",
    # It is the origin for every proxy.
    check=null_responder_path,
    example="--only hit-* --proxies amped,nginx,varnish",
)

if __name__ == "__main__":
    COMMAND.run()
