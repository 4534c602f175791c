"""Capacity planning on system files: what a target needs, what each resource gives, what it costs, how long it lasts.

`system_document` reads a file and changes its parameters; `evaluation` asks solvers or the simulator; `search` finds
the smallest change; the files beside them put the questions, `plan` asks them all, `report` draws the answers.
"""
