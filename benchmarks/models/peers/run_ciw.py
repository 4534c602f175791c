"""Ciw: its own FIFO and processor-sharing nodes; r servers that share one processor are limited processor sharing."""

from __future__ import annotations

import ciw
from model import answer, branches, quantity, read, timed


def distribution(table):
    if isinstance(table, str):
        return ciw.dists.Deterministic(quantity(table))
    if table["law"] == "exponential":
        return ciw.dists.Exponential(1.0 / quantity(table["mean"]))
    share, first, second = branches(table)
    return ciw.dists.HyperExponential([first, second], [share, 1.0 - share])


def run(text, jobs, seed):
    ciw.seed(seed)
    model = read(text)
    (kind,), (station,) = model.classes, model.stations.values()
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(kind.rate)],
        service_distributions=[distribution(station["demand"])],
        number_of_servers=[station.get("r", 1 if station["discipline"] == "fifo" else float("inf"))],
        ps_thresholds=[1],
    )
    node = ciw.Node if station["discipline"] == "fifo" else ciw.PSNode
    simulation = ciw.Simulation(network, node_class=node)
    seconds, _ = timed(lambda: simulation.simulate_until_max_customers(jobs))
    records = sorted(simulation.get_all_records(), key=lambda record: record.arrival_date)
    counted = records[len(records) // 10 :]
    total = sum(record.exit_date - record.arrival_date for record in counted)
    return {
        "jobs": len(records),
        "visits": len(records),
        "cpu_seconds": seconds,
        "mean_response_time_seconds": total / len(counted),
    }


answer(run)
