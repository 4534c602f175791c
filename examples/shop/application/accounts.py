"""Logins, sessions and the tokens that protect forms against forged requests."""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from flask import Blueprint, abort, g, redirect, render_template, request, session, url_for
from werkzeug import Response
from werkzeug.security import check_password_hash

from .database import Database


def blueprint(database: Database) -> Blueprint:
    """Returns the pages for logging in and out, and the checks before every page."""
    pages = Blueprint("accounts", __name__)

    @pages.before_app_request
    def know_the_user() -> None:
        g.user = None
        if "user" in session:
            g.user = database.one("SELECT id, name, full_name FROM users WHERE id = %s", [session["user"]])
        if "token" not in session and request.method == "GET":
            session["token"] = secrets.token_hex(16)
        if request.method == "POST" and not _is_genuine(request.form.get("token", "")):
            abort(403, "the form's token is missing or wrong")

    @pages.get("/login")
    def login() -> str:
        return render_template("login.html", failed=False)

    @pages.post("/login")
    def log_in() -> Response | tuple[str, int]:
        user = database.one("SELECT id, password FROM users WHERE name = %s", [request.form.get("name", "")])
        if user is None or not check_password_hash(user["password"], request.form.get("password", "")):
            return render_template("login.html", failed=True), 401
        session["user"] = user["id"]
        return redirect(url_for("accounts.account"), 303)

    @pages.post("/logout")
    def log_out() -> Response:
        session.clear()
        return redirect(url_for("catalogue.home"), 303)

    @pages.get("/account")
    def account() -> str | Response:
        if g.user is None:
            return redirect(url_for("accounts.login"), 302)
        return render_template("account.html", orders=_orders(database, g.user["id"]))

    return pages


def _is_genuine(token: str) -> bool:
    return hmac.compare_digest(token, session.get("token", "no session"))


def _orders(database: Database, user: int) -> list[dict[str, Any]]:
    return database.all(
        "SELECT number, total_cents, state, placed_at FROM orders WHERE user_id = %s ORDER BY placed_at DESC LIMIT 20",
        [user],
    )
