"""The live view of a run in a browser: a page on this machine that hears the lines which the terminal draws."""
