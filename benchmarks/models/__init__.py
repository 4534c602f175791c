"""The benchmark of the models: their speed and accuracy beside other tools.

`cases` has the systems to solve, `competitors` the programs that solve them, `peers/` the other tools' programs, which
run in an environment of their own. `record` keeps the runs, `page` and `plot` show them, `__main__` ties all together.
"""
