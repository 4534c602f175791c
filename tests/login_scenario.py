"""The login of the applications in these tests: a form with a token, then its fields."""

from __future__ import annotations

_LOGIN = """
[users]
file = "users.csv"

[[login]]
name = "form"
url = "/login"
take.token = { input = "token" }

[[login]]
name = "login"
url = "/login"
form = { name = "${name}", password = "${password}", token = "${token}" }
check.contains = "GREETING"
"""


def login_scenario(greeting: str) -> str:
    """Returns a scenario that logs in; `greeting` is in the page that follows a login."""
    return _LOGIN.replace("GREETING", greeting)
