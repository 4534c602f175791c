"""Capacity planning on system files: what a target needs, what each resource gains and costs, and when growth ends it.

`system_document` reads a file and changes its parameters; `evaluation` asks solvers or the simulator; `search` finds
the smallest change; the other files each answer a question, `plan` answers all, `report` draws the answers.
"""
