"""Figures printed in the literature."""

from __future__ import annotations

JAIN_TABLE_34_1 = {
    1: (6.000, 0.100),
    2: (7.400, 0.175),
    3: (9.088, 0.229),
    4: (11.051, 0.266),
    5: (13.256, 0.290),
    17: (47.045, 0.333),
    18: (50.032, 0.333),
    19: (53.022, 0.333),
    20: (56.016, 0.333),
}
"""R. Jain, The Art of Computer Systems Performance Analysis, 1991, Table 34.1: by number of users, the response time in
seconds and the throughput. CPU 0.125 s × 16 visits, disk A 0.3 s × 10, disk B 0.2 s × 5, think time 4 s."""

ERLANG_C_4_SERVERS_3_2 = 0.59643
"""The probability of waiting, four servers at 3.2 erlangs: the standard table of Erlang's second formula."""
