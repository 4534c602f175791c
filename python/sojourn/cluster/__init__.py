"""Work on more than one process or machine, on Dask (`distributed`, the optional extra `sojourn[cluster]`).

`target` parses `--cluster`, `opening` starts or joins what it names, `tasks` runs independent tasks there or in this
process. Nothing here knows what a task computes, and no other package imports Dask.
"""
