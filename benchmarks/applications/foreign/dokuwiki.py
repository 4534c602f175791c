"""DokuWiki, unpacked from Debian's packages, under php-fpm: pages from files, a search, no database."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.applications.foreign.running import Foreign, Parts, free_port
from sojourn.failure import CouldNotRun

PAGES = 40
WORDS = ("station", "queue", "lamp", "harbour", "index", "winter", "signal", "paper", "bridge", "copper")
PATHS: Sequence[str] = (
    "/doku.php?id=start",
    *(f"/doku.php?id=notes:page{number}" for number in range(PAGES)),
    *(f"/doku.php?do=search&id=start&q={word}" for word in WORDS[:4]),
    "/doku.php?do=index&id=start",
    "/doku.php?do=recent&id=start",
)
POOL = """\
[global]
error_log = {folder}/php-fpm-error.log
daemonize = no
[wiki]
listen = 127.0.0.1:{port}
listen.backlog = 1024
user = {user}
pm = static
pm.max_children = {children}
php_admin_value[open_basedir] =
php_admin_value[include_path] = .:{php}
"""


def starting(unpacked: Path, children: int) -> Callable[[Parts], Foreign]:
    """Returns a function that starts it with this many php-fpm processes."""

    def start(parts: Parts) -> Foreign:
        program = shutil.which("php-fpm8.2", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None or not unpacked.is_dir():
            raise CouldNotRun("there is no DokuWiki to assess", "benchmarks/applications/peers installs it")
        wiki, user = _laid_out(unpacked, parts.folder), _user()
        port = free_port()
        pool = parts.folder / "php-fpm.conf"
        php = unpacked / "usr/share/php"
        pool.write_text(POOL.format(folder=parts.folder, port=port, user=user, children=children, php=php))
        parts.start([program, "-F", "-y", pool])
        locations = (
            f"root {wiki}; index doku.php;\n"
            "        location / { try_files $uri $uri/ /doku.php?$args; }\n"
            "        location ~ \\.php$ {\n"
            "            include /etc/nginx/fastcgi_params;\n"
            f"            fastcgi_param SCRIPT_FILENAME {wiki}$fastcgi_script_name;\n"
            f"            fastcgi_pass 127.0.0.1:{port};\n"
            "        }"
        )
        web = parts.nginx(locations)
        return Foreign(f"http://127.0.0.1:{web}", parts.folder / "access.log", {"web": web, "app": port})

    return start


def _laid_out(unpacked: Path, folder: Path) -> Path:
    """Makes a wiki: the program, its settings, and pages with text."""
    wiki, kept = folder / "wiki", unpacked / "var/lib/dokuwiki"
    shutil.copytree(
        unpacked / "usr/share/dokuwiki",
        wiki,
        symlinks=True,
        ignore=shutil.ignore_patterns("plugins", "tpl", ".htaccess"),
    )
    for name in ("plugins", "tpl"):
        shutil.copytree(kept / "lib" / name, wiki / "lib" / name, symlinks=True)
    shutil.copytree(kept / "data", wiki / "data", symlinks=True)
    conf = wiki / "conf"
    shutil.copytree(unpacked / "etc/dokuwiki", conf, ignore=lambda _, names: [n for n in names if n in LINKS])
    (conf / "local.php").write_text(
        f"<?php\n$conf['savedir'] = '{wiki}/data';\n$conf['useacl'] = 0;\n$conf['title'] = 'Notes';\n"
        "$conf['updatecheck'] = 0;\n$conf['baseurl'] = '';\n"
    )
    (wiki / "inc/preload.php").write_text(f"<?php\ndefine('DOKU_CONF', '{conf}/');\n")
    # Debian's packages refer to each other by their installed paths.
    for program in (*(wiki / "inc").rglob("*.php"), *(wiki / "vendor").rglob("*.php")):
        text = program.read_text(errors="surrogateescape")
        if "/usr/share/php" in text:
            program.write_text(text.replace("/usr/share/php", f"{unpacked}/usr/share/php"), errors="surrogateescape")
    for name in (
        "attic",
        "cache",
        "index",
        "locks",
        "log",
        "media",
        "media_attic",
        "media_meta",
        "meta",
        "pages",
        "tmp",
    ):
        (wiki / "data" / name).mkdir(parents=True, exist_ok=True)
    _write_pages(wiki / "data/pages")
    user = _user()
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            shutil.chown(path, user)
    return wiki


LINKS = ("acl.auth.php", "users.auth.php", "local.php", "htaccess")


def _write_pages(pages: Path) -> None:
    (pages / "notes").mkdir(exist_ok=True)
    for number in range(PAGES):
        lines = [f"====== Page {number} ======"]
        for part in range(3 + number % 8):
            words = " ".join(WORDS[(number + part + place) % len(WORDS)] for place in range(60))
            lines += [
                f"===== Part {part} =====",
                f"  * **{WORDS[part % 10]}** [[notes:page{(number + part) % PAGES}]]",
                words,
            ]
        (pages / "notes" / f"page{number}.txt").write_text("\n\n".join(lines))
    (pages / "start.txt").write_text(
        "\n\n".join(["====== Start ======", *(f"  * [[notes:page{n}]]" for n in range(PAGES))])
    )


def _user() -> str:
    if os.getuid():
        return pwd.getpwuid(os.getuid()).pw_name
    return "www-data"
