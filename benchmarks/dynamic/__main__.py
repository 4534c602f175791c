"""`benchmarks/dynamic/bench`: our server in front of an application, beside others."""

from __future__ import annotations

from benchmarks.dynamic import conditions
from benchmarks.dynamic.cell import serving
from benchmarks.dynamic.gateways import competitors
from benchmarks.dynamic.outcome import Outcome
from benchmarks.server.cell import load
from benchmarks.server.command import Command
from benchmarks.server.competitors import null_responder_path
from benchmarks.server.runner import Benchmark

COMMAND = Command(
    benchmark=Benchmark(
        program="benchmarks/dynamic/bench",
        documents=conditions.documents(),
        site_bytes_max=1_000_000,
        serving=serving,
        load=load,
        outcome=Outcome,
    ),
    conditions=conditions.CONDITIONS,
    everybody=competitors,
    kind="gateways",
    about="Measure what a dynamic request costs our architectures and other servers, by FastCGI and by CGI.",
    # It is the application, and every script.
    check=null_responder_path,
    example="--only 'fastcgi-*' --gateways amped,nginx",
)

if __name__ == "__main__":
    COMMAND.run()
