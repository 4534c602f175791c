"""Checks how reliable an assessment is: repeats it on a quiet machine and beside other work."""
