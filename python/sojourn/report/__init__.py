"""HTML pages, plots, and tables on the terminal, one folder per kind of run.

No package that measures, models or decides imports this one; the commands connect the two. A page is a single file that
loads nothing from the network, and is drawn from a run's folder alone.
"""
