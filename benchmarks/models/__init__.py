"""The models beside other tools: how fast, and how right.

`cases` is what is solved, `competitors` who solves it, `peers/` the other tools' programs, which run in an environment
of their own; `record` keeps what was measured, `page` and `plot` show it, `__main__` puts it together.
"""
