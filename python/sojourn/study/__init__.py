"""Studies: systems × workload × factors × repetitions, declared in a TOML file and measured repeatedly.

`document` parses the file, `points` lists the measurements in order, `load_point` makes one, `runner` runs them all and
`folder` stores each when it is done. From the folder, `cells` computes estimates, `checks` verdicts, and `report` the
page.
"""
