"""The tiers of a system: sets of processes, here or on another machine, and what each uses while it is loaded.

`declaration` reads what a person typed, `processes` finds the processes, `watch` samples them all at once by probes and
by what the application says itself: `sockets`, `postgresql`, `prometheus`.
"""
