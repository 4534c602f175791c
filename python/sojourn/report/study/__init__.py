"""Studies: the page of one, the index over all, and tables on the terminal."""
