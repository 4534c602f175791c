"""The main job for a system of several tiers: an application behind a web server, with a database behind it.

`requests` and `endpoints` say what a log asks for, and `coverage` what of it a load can stand for.
"""
