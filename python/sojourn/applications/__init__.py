"""Assessment of a multi-tier application: a web server, an application server and a database.

`requests` and `endpoints` extract the requests from a log, and `coverage` selects those that a generated load can
represent.
"""
