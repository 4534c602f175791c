"""Studies: systems × workload × factors × repetitions, declared in a TOML file and measured again and again.

`document` is the file, `points` what is measured in which order, `load_point` measures one, `runner` goes through
them and `folder` keeps each as it is done. From the folder alone `cells` makes estimates, `checks` verdicts, `report`
the page.
"""
