"""Simulates an access line by packets: one FIFO queue, and TCP slow start.

Each transfer may send ten packets at once (RFC 6928); each arrival allows two more (slow start), since there is no
delay besides the line's queue. Short transfers, most of a log's, therefore pass as a whole, first come first served,
and only long ones share the line. Processor sharing would let short ones overtake, and predict half of their time
under load. Losses, and windows that a connection keeps from one transfer to the next, are left out.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from sojourn.calibration.estimate import FloatArray

INITIAL_WINDOW_PACKETS = 10
PACKETS_PER_ARRIVAL = 2
PACKETS = 400_000
"""The approximate number of packets in a simulation."""
WARM_UP_FRACTION = 0.1


def transfer_times(rate: float, carried_seconds: FloatArray, packets: FloatArray, seed: int) -> FloatArray:
    """Times from the first packet in the queue to the last one at the client, for random transfers of the log.

    Args:
        rate: transfers/s, as a Poisson process, below what fills the line.
        carried_seconds: what the line needs for each request of the log; shape (requests,).
        packets: how many packets that are; shape (requests,).
        seed: of the draws.

    Returns:
        Seconds, without those of the warm-up.
    """
    random = np.random.default_rng(seed)
    count = max(1000, int(PACKETS / float(packets.mean())))
    drawn = random.integers(0, len(packets), count)
    # The sample is scaled to the log's mean, so that it fills the line to the same extent.
    seconds = carried_seconds[drawn] * (carried_seconds.mean() / carried_seconds[drawn].mean())
    arrivals = np.cumsum(random.exponential(1 / rate, count))
    times = _through(arrivals.tolist(), (seconds / packets[drawn]).tolist(), packets[drawn].astype(int).tolist())
    return np.array(times[int(WARM_UP_FRACTION * count) :])


def _through(arrivals: list[float], packet_seconds: list[float], packets: list[int]) -> list[float]:
    queue: deque[int] = deque()
    waiting = list(packets)
    """Packets of each transfer that are not in the queue yet."""
    missing = list(packets)
    """Packets of each transfer that have not arrived."""
    times = [0.0] * len(arrivals)
    now, coming = 0.0, 0

    def release(transfer: int, most: int) -> None:
        sent = min(most, waiting[transfer])
        waiting[transfer] -= sent
        queue.extend([transfer] * sent)

    while queue or coming < len(arrivals):
        if not queue:
            now = max(now, arrivals[coming])
        while coming < len(arrivals) and arrivals[coming] <= now:
            release(coming, INITIAL_WINDOW_PACKETS)
            coming += 1
        transfer = queue.popleft()
        now += packet_seconds[transfer]
        while coming < len(arrivals) and arrivals[coming] <= now:
            release(coming, INITIAL_WINDOW_PACKETS)
            coming += 1
        missing[transfer] -= 1
        if missing[transfer] == 0:
            times[transfer] = now - arrivals[transfer]
        else:
            release(transfer, PACKETS_PER_ARRIVAL)
    return times
