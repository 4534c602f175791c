"""The fitted model as a system file, so that `sojourn simulate` and a person with an editor can take it further.

The file's requests are independent (a Poisson process), the connection's cost is spread over all of them, and sizes
are grouped, each group keeping its mean; the assessment's own simulation has the sessions.
"""

from __future__ import annotations

import numpy as np

from sojourn.assessment.model import Mix, Station
from sojourn.summary import DemandFit

SIZE_GROUPS = 60


def system_file(
    name: str,
    mix: Mix,
    station: Station,
    fit: DemandFit,
    rate: float,
    access_line_bits_per_second: float | None,
) -> str:
    """The text of the system file.

    Args:
        name: what the system is called.
        mix: the log's requests.
        station: the fitted server.
        fit: the demand per document size, before calibration.
        rate: the request rate to start from, requests/s.
        access_line_bits_per_second: adds the access line, if there is one.
    """
    factor = station.calibration.estimate
    opening = fit.connection_seconds.estimate if fit.connection_seconds else 0.0
    fixed = factor * (fit.fixed_seconds.estimate + opening * float(mix.opens_connection.mean()))
    sizes, weights = _grouped(mix.sizes_bytes)
    route = ["network", "server"] + (["line"] if access_line_bits_per_second else [])
    discipline = f'"lps"\nr = {station.r}' if station.r is not None else '"ps"'
    text = f"""# Fitted by sojourn assess; see model.py of the assessment for what the figures mean.
name = "{name}"

[document]
law = "empirical"
values = [{", ".join(f'"{size:.0f}B"' for size in sizes)}]
weights = [{", ".join(f"{weight:.6f}" for weight in weights)}]

[stations.server]
discipline = {discipline}
demand = {{ fixed = "{fixed * 1e6:.4f}us", per_byte = "{factor * fit.seconds_per_byte.estimate * 1e9:.6f}ns/B" }}

# Wake-ups, the network stack, and what interruptions of the core add at this rate.
[stations.network]
discipline = "is"
demand = "{station.mean_delay(rate) * 1e6:.4f}us"
"""
    if access_line_bits_per_second:
        text += f"""
[stations.line]
discipline = "ps"
rate = "{access_line_bits_per_second / 1e6:g}Mbit/s"
"""
    quoted = ", ".join(f'"{station}"' for station in route)
    return (
        text
        + f"""
[classes.requests]
rate = "{rate:.6g}/s"
route = [{quoted}]
"""
    )


def _grouped(sizes: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[list[float], list[float]]:
    # Groups of equal width in the logarithm, so that the few large documents keep groups of their own.
    logarithms = np.log(np.maximum(sizes, 1.0))
    edges = np.linspace(logarithms.min(), logarithms.max(), SIZE_GROUPS)
    group = np.digitize(logarithms, edges)
    means, weights = [], []
    for index in np.unique(group):
        members = sizes[group == index]
        means.append(float(members.mean()))
        weights.append(len(members) / len(sizes))
    return means, weights
