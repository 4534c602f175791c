"""What a person gets from a load run: its result with intervals, thresholds, searches, comparisons, many machines.

The engine makes the load and measures; everything here happens beside it or after it. `result` is what a run left,
`confidence` how far its figures are to be trusted, `metrics` the table of what can be asked of it. Built on those:
`threshold`, `search`, `comparison`, `fleet`; `outputs` and `folder` write, `live` and `terminal` show.
"""
