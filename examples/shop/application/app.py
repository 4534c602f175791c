"""The application that gunicorn runs."""

from __future__ import annotations

import os
import random

from flask import Flask, g
from markupsafe import Markup

from . import accounts, catalogue, orders
from .burn import burn
from .database import Database
from .external import External
from .knobs import Knobs
from .metrics import Metrics

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def create() -> Flask:
    """Returns the application of one worker process."""
    knobs = Knobs()
    database, external = Database(knobs), External(knobs)
    application = Flask(__name__)
    application.secret_key = os.environ["SHOP_SECRET"]
    filler = _filler(knobs.count("page_kb") * 1024)
    Metrics(database).attach(application)
    database.attach(application)
    application.before_request(lambda: burn(knobs.seconds("cpu_ms")))
    application.context_processor(lambda: {"filler": filler, "user": g.get("user")})
    application.jinja_env.filters["money"] = lambda cents: f"{cents / 100:,.2f} €"
    application.register_blueprint(accounts.blueprint(database))
    application.register_blueprint(catalogue.blueprint(database, external, knobs))
    application.register_blueprint(orders.blueprint(database, external))
    return application


def _filler(size_bytes: int) -> Markup:
    # Words that do not repeat, so that compressing them takes CPU time.
    drawn = random.Random(1)
    words = ("".join(drawn.choices(LETTERS, k=drawn.randint(2, 9))) for _ in range(size_bytes // 6))
    return Markup(" ".join(words)[:size_bytes])
