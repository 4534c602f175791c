"""The static files of the HttpArena benchmark, by name and size, and the load that its static profile makes.

The files are assets of a web site with siblings that are compressed already; clients accept Brotli and gzip. Our site
has files of these names and sizes with other content: no server looks into a file, and which sibling it sends depends
on the names.
"""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.workload.site import Document

FOLDER = "/httparena"
ACCEPT_ENCODING = "br;q=1, gzip;q=0.8"
GZIP_ONLY = ("nginx",)
"""The servers that have no Brotli as Debian builds them: they answer with bodies an eighth longer."""


@dataclass(frozen=True)
class File:
    """A file and its siblings `NAME.br` and `NAME.gz`, if there are any; sizes in bytes."""

    name: str
    plain: int
    brotli: int | None = None
    gzip: int | None = None

    def answer_to(self, server: str) -> Document:
        """Returns the file that the server sends, with its size."""
        suffix, size = (".gz", self.gzip) if server in GZIP_ONLY else (".br", self.brotli)
        return (self.name, self.plain) if size is None else (self.name + suffix, size)


FILES = (
    File("analytics.js", 12_288, 3_899, 4_390),
    File("app.js", 204_800, 47_275, 54_813),
    File("bold.woff2", 22_528),
    File("components.css", 204_800, 33_268, 39_348),
    File("footer.html", 56_320, 6_974, 8_256),
    File("header.html", 122_880, 9_390, 11_769),
    File("helpers.js", 22_528, 6_612, 7_442),
    File("hero.webp", 46_080),
    File("icon-sprite.svg", 71_680, 11_739, 13_657),
    File("layout.css", 25_600, 5_615, 6_380),
    File("logo.svg", 15_344, 3_028, 3_654),
    File("manifest.json", 2_883, 735, 927),
    File("regular.woff2", 18_432),
    File("reset.css", 8_192, 2_420, 2_838),
    File("router.js", 35_840, 9_665, 10_856),
    File("theme.css", 18_432, 4_520, 5_138),
    File("thumb1.webp", 8_192),
    File("thumb2.webp", 6_144),
    File("utilities.css", 61_440, 11_595, 13_040),
    File("vendor.js", 307_200, 67_294, 79_899),
)


def documents() -> list[Document]:
    """Returns the files and their siblings, as part of a site."""
    found = []
    for file in FILES:
        sizes = {"": file.plain, ".br": file.brotli, ".gz": file.gzip}
        found += [(f"{FOLDER}/{file.name}{suffix}", size) for suffix, size in sizes.items() if size is not None]
    return found


def file_list(server: str) -> str:
    """Returns the files as the generator takes them, equally often, each with the size of the server's answer."""
    return "".join(f"/{file.name} 1 #{file.answer_to(server)[1]}\n" for file in FILES)
