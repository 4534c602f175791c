"""The public pages: the home page, categories, products, searches, and the same as an API."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, abort, jsonify, render_template, request
from werkzeug import Response

from .database import Database
from .external import External
from .knobs import Knobs

PAGE = 24
SORTS = {"name": "name", "price": "price_cents", "newest": "id DESC"}


def blueprint(database: Database, external: External, knobs: Knobs) -> Blueprint:
    """Returns the pages of the catalogue."""
    pages = Blueprint("catalogue", __name__)

    @pages.get("/")
    def home() -> str:
        database.burden()
        categories = database.all("SELECT name, title FROM categories ORDER BY title")
        products = database.all("SELECT slug, name, price_cents FROM products ORDER BY rating DESC, id LIMIT 12")
        return render_template("home.html", categories=categories, products=products)

    @pages.get("/category/<name>")
    def category(name: str) -> str:
        database.burden()
        found = database.one("SELECT id, title FROM categories WHERE name = %s", [name]) or abort(404)
        sort = SORTS.get(request.args.get("sort", "name"), "name")
        products = database.all(
            f"SELECT slug, name, price_cents FROM products WHERE category_id = %s ORDER BY {sort} LIMIT %s OFFSET %s",
            [found["id"], PAGE, PAGE * _page()],
        )
        return render_template("list.html", title=found["title"], products=products)

    @pages.get("/search")
    def search() -> str:
        database.burden()
        words = request.args.get("q", "")
        products = database.all(
            "SELECT slug, name, price_cents FROM products "
            "WHERE to_tsvector('simple', name || ' ' || description) @@ plainto_tsquery('simple', %s) "
            "ORDER BY rating DESC, id LIMIT %s OFFSET %s",
            [words, PAGE, PAGE * _page()],
        )
        return render_template("list.html", title=f"Search: {words}", products=products)

    @pages.get("/products/<slug>")
    def product(slug: str) -> str:
        database.burden()
        found = database.one("SELECT * FROM products WHERE slug = %s", [slug]) or abort(404)
        reviews = database.all(
            "SELECT author, stars, words FROM reviews WHERE product_id = %s ORDER BY id DESC LIMIT 10", [found["id"]]
        )
        _count_view()
        external.ask()
        related = database.all(
            "SELECT slug, name, price_cents FROM products WHERE category_id = %s AND id > %s ORDER BY id LIMIT 4",
            [found["category_id"], found["id"]],
        )
        return render_template("product.html", product=found, reviews=reviews, related=related)

    @pages.get("/api/products/<int:number>")
    def product_data(number: int) -> Response:
        database.burden()
        return jsonify(_stocked(number))

    def _stocked(number: int) -> dict[str, Any]:
        query = "SELECT id, slug, name, price_cents, stock FROM products WHERE id = %s"
        return database.one(query, [number]) or abort(404)

    def _count_view() -> None:
        # All pages write this row: the one that holds its lock makes the others wait.
        if lock := knobs.seconds("lock_ms"):
            database.all("UPDATE views SET count = count + 1")
            database.all("SELECT pg_sleep(%s)", [lock])
            database.commit()

    return pages


def _page() -> int:
    return max(0, request.args.get("page", 1, type=int) - 1)
