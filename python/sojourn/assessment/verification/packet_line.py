"""Simulates an access line by packets: one FIFO queue, and TCP's windows.

Each transfer may send ten packets at once (RFC 6928); each arrival allows two more (slow start), since there is no
delay besides the line's queue. Short transfers, most of a log's, therefore pass as a whole, first come first served,
and only long ones share the line. Processor sharing would let short ones overtake, and predict half of their time
under load. BBR, unlike loss-based congestion control, does not fill the queue: a transfer has at most so many packets
on the way (`window_limit`), and short ones overtake the rest of long ones. Losses, and windows that a connection keeps
from one transfer to the next, are left out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn import _native
from sojourn.assessment.simulation import Sessions, added, by_own_requests, drawn
from sojourn.assessment.steps import Sent
from sojourn.assessment.summary import Prediction, Step
from sojourn.calibration.estimate import FloatArray

INITIAL_WINDOW_PACKETS = 10
PACKETS_PER_ARRIVAL = 2
PACKETS = 400_000
"""The approximate number of packets in a simulation."""
WARM_UP_FRACTION = 0.1
CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
BBR_BURSTS = 3
"""BBR may have as many segmentation bursts on the way beyond what the line holds (Linux, `tcp_bbr.c`)."""
BURSTS_PER_SECOND = 1024
"""A burst is what a connection at the line's rate sends in 1/1024 s (`sk_pacing_shift`)."""
BURST_PACKETS_MIN = 2


def window_limit(bits_per_second: float, packet_bits: float, congestion_control: str | None) -> int | None:
    """The most packets that a transfer has on a line without a delay of its own; None if nothing limits them."""
    if congestion_control is None or not congestion_control.startswith("bbr"):
        return None
    burst = int(bits_per_second / BURSTS_PER_SECOND / packet_bits)
    return max(INITIAL_WINDOW_PACKETS, BBR_BURSTS * max(BURST_PACKETS_MIN, burst))


def congestion_control() -> str | None:
    """The system's default congestion control; None where it cannot be read."""
    try:
        return CONGESTION_CONTROL.read_text().strip()
    except OSError:
        return None


@dataclass(frozen=True)
class Line:
    """A line that carries the responses of a log."""

    seconds: FloatArray
    """What it needs for each request of the log; shape (requests,)."""
    packets: FloatArray
    """How many packets that are; shape (requests,)."""
    window_packets: int | None
    """The most packets of a transfer on the way; None without a limit."""

    @property
    def capacity(self) -> float:
        """Requests/s that fill it."""
        return 1.0 / float(self.seconds.mean())

    def at(self, rate: float, seed: int) -> Prediction:
        """The times on the line of random transfers of the log, at a rate in requests/s below the capacity."""
        times = transfer_times(rate, self.seconds, self.packets, seed, self.window_packets)
        return Prediction(
            requests_per_second=rate,
            response_time_mean_seconds=float(times.mean()),
            response_time_p95_seconds=float(np.quantile(times, 0.95)),
        )

    def at_step(self, step: Step, sessions: Sessions, served_seconds: float, seed: int) -> Prediction:
        """Predicts a measured step by its own requests, each with the server's time added."""

        def again(sent: Sent) -> tuple[FloatArray, FloatArray]:
            answered_at, times, seconds = _native.simulate_step(
                *drawn(sessions, sent), self.seconds, None, served_seconds, sent.seed
            )
            arrivals = answered_at - times
            order = np.argsort(arrivals, kind="stable")
            arrivals, seconds = arrivals[order], seconds[order]
            packets = self._packets_of(seconds)
            crossed = _through(
                arrivals.tolist(), (seconds / packets).tolist(), packets.astype(int).tolist(), self.window_packets
            )
            whole = np.array(crossed) + served_seconds
            return arrivals + whole, whole

        usual = added(self.at(step.offered_requests_per_second, seed), served_seconds, served_seconds)
        return by_own_requests(step, sessions, usual, again)

    def _packets_of(self, seconds: FloatArray) -> FloatArray:
        ascending = np.argsort(self.seconds)
        packets: FloatArray = self.packets[ascending][np.searchsorted(self.seconds[ascending], seconds)]
        return packets


def transfer_times(
    rate: float, carried_seconds: FloatArray, packets: FloatArray, seed: int, window_packets: int | None = None
) -> FloatArray:
    """Times from the first packet in the queue to the last one at the client, for random transfers of the log.

    Args:
        rate: transfers/s, as a Poisson process, below what fills the line.
        carried_seconds: what the line needs for each request of the log; shape (requests,).
        packets: how many packets that are; shape (requests,).
        seed: of the draws.
        window_packets: the most packets of a transfer on the way; None without a limit.

    Returns:
        Seconds, without those of the warm-up.
    """
    random = np.random.default_rng(seed)
    count = max(1000, int(PACKETS / float(packets.mean())))
    drawn_ones = random.integers(0, len(packets), count)
    # The sample is scaled to the log's mean, so that it fills the line to the same extent.
    seconds = carried_seconds[drawn_ones] * (carried_seconds.mean() / carried_seconds[drawn_ones].mean())
    arrivals = np.cumsum(random.exponential(1 / rate, count))
    each = packets[drawn_ones]
    times = _through(arrivals.tolist(), (seconds / each).tolist(), each.astype(int).tolist(), window_packets)
    return np.array(times[int(WARM_UP_FRACTION * count) :])


def _through(
    arrivals: list[float], packet_seconds: list[float], packets: list[int], window_packets: int | None
) -> list[float]:
    """The time of each transfer, in seconds; `arrivals` ascend."""
    queue: deque[int] = deque()
    waiting = list(packets)
    """Packets of each transfer that are not in the queue yet."""
    missing = list(packets)
    """Packets of each transfer that have not arrived."""
    times = [0.0] * len(arrivals)
    now, coming = 0.0, 0
    most = window_packets or max(packets, default=0)

    def release(transfer: int, count: int) -> None:
        sent = min(count, waiting[transfer])
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
            room = most - (missing[transfer] - waiting[transfer])
            release(transfer, min(PACKETS_PER_ARRIVAL, room))
    return times
