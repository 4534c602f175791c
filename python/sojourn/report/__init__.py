"""What people look at: HTML pages, plots, and tables on the terminal, one folder per kind of run.

Nothing that measures, models or decides imports this package; the commands join the two. A page is one file that
fetches nothing from the network, and is drawn from a run's folder alone.
"""
