"""Displays of studies: the page of one, the index of all, and tables on the terminal."""
