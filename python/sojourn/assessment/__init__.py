"""Capacity assessment: from an access log to the capacity of its site on this machine.

`pipeline.assess` runs the stages in order and writes each result into the run folder at once. If it ends early (Ctrl-C,
a server that dies), the folder holds an incomplete run that says how far it came.
"""
