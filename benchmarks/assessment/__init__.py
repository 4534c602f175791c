"""Whether an assessment's answer can be believed: run again and again, on a quiet machine and beside other work."""
