"""The main job: from an access log to a capacity answer.

`pipeline.assess` goes through the stages in order and writes the result of each into the run folder at once. If
something ends it early (Ctrl-C, a server that dies), the folder holds a run that says how far it came.
"""
