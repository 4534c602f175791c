"""The tiers of a system: sets of processes, here or on another machine, and their usage under load.

`declaration` parses a tier, `processes` finds its processes, `watch` samples all tiers at once, by probes and by what
the application reports: `sockets`, `postgresql`, `prometheus`.
"""
