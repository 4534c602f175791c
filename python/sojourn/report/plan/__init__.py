"""Plans and predictions: the report of a plan, and tables on the terminal."""
