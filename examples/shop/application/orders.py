"""The basket and the checkout: writes, a payment by an external service, and a job for the queue."""

from __future__ import annotations

import secrets
from typing import Any

from flask import Blueprint, abort, g, redirect, render_template, request, session, url_for
from werkzeug import Response

from .database import Database
from .external import External


def blueprint(database: Database, external: External) -> Blueprint:
    """Returns the pages that write."""
    pages = Blueprint("orders", __name__)

    @pages.get("/cart")
    def cart() -> str:
        return render_template("cart.html", lines=_lines())

    @pages.post("/cart/add")
    def add() -> Response:
        product = database.one("SELECT id FROM products WHERE slug = %s", [request.form.get("product", "")])
        if product is None:
            abort(404)
        session.setdefault("cart", secrets.token_hex(8))
        database.all(
            "INSERT INTO cart_lines (cart, product_id, count) VALUES (%s, %s, 1) "
            "ON CONFLICT (cart, product_id) DO UPDATE SET count = cart_lines.count + 1",
            [session["cart"], product["id"]],
        )
        database.commit()
        return redirect(url_for("orders.cart"), 303)

    @pages.post("/checkout")
    def checkout() -> Response:
        if g.user is None:
            return redirect(url_for("accounts.login"), 303)
        lines = _lines()
        if not lines:
            abort(409, "the basket is empty")
        external.ask()
        number = secrets.token_hex(6)
        total = sum(line["price_cents"] * line["count"] for line in lines)
        database.all(
            "INSERT INTO orders (number, user_id, total_cents, state) VALUES (%s, %s, %s, 'paid')",
            [number, g.user["id"], total],
        )
        # In the order of their numbers, so that two orders of the same products cannot deadlock.
        for line in sorted(lines, key=lambda line: int(line["product_id"])):
            database.all("UPDATE products SET stock = stock - %s WHERE id = %s", [line["count"], line["product_id"]])
        database.all("INSERT INTO jobs (order_number) VALUES (%s)", [number])
        database.all("DELETE FROM cart_lines WHERE cart = %s", [session["cart"]])
        database.commit()
        return redirect(url_for("orders.order", number=number), 303)

    @pages.get("/orders/<number>")
    def order(number: str) -> str:
        found = database.one("SELECT * FROM orders WHERE number = %s", [number])
        if found is None or g.user is None or found["user_id"] != g.user["id"]:
            abort(404)
        return render_template("order.html", order=found)

    def _lines() -> list[dict[str, Any]]:
        if "cart" not in session:
            return []
        return database.all(
            "SELECT product_id, slug, name, price_cents, count FROM cart_lines "
            "JOIN products ON products.id = product_id WHERE cart = %s ORDER BY product_id",
            [session["cart"]],
        )

    return pages
