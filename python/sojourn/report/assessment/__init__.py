"""The capacity report of an assessment, and its answer on the terminal."""
