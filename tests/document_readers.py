"""What readers of explanations have before they type a command, page by page (`document_commands.Reader`).

Files and folders are made once (`Stock`) and copied for each page. What a test does not have is stood in for: nginx by
our server, another machine by this one.
"""

from __future__ import annotations

import gzip
import os
import shlex
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars

from sojourn import _native
from sojourn.workload import fileset
from tests.conftest import REPOSITORY, run
from tests.document_commands import Reader
from tests.example_run import write_example

BUILD_BYTES_MAX = 10_000_000
"""More than WebStone's five files have."""


class Stock:
    """A folder of what readers have, made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, make: Callable[[Path], None], place: Path) -> None:
        """Copies what `make` makes."""
        made = self._folder / make.__name__
        if not made.exists():
            make(made)
        place.parent.mkdir(parents=True, exist_ok=True)
        if made.is_dir():
            shutil.copytree(made, place)
        else:
            shutil.copy2(made, place)


def public(folder: Path) -> None:
    """A site: a page, the page for what is missing, and a file to load down, as old as a listing shows it."""
    (folder / "downloads").mkdir(parents=True)
    for name in ("index.html", "page.html", "404.html"):
        (folder / name).write_text("<p>hello</p>")
    archive = folder / "downloads" / "a.tar"
    archive.write_bytes(bytes(10_240))
    modified = datetime(2026, 11, 22, 3, 15, tzinfo=UTC).timestamp()
    os.utime(archive, (modified, modified))


def webstone(folder: Path) -> None:
    fileset.write(fileset.webstone(), folder, BUILD_BYTES_MAX)


def films(folder: Path) -> None:
    done = run("media", "--output", folder / "made", "--rate", "56k", "--seconds", "10")
    assert done.returncode == 0, done.stderr
    film = next((folder / "made").glob("*.mp4"))
    for name in ("film.mp4", "holiday.mp4"):
        shutil.copy(film, folder / name)
    shutil.rmtree(folder / "made")


def film_list(path: Path) -> None:
    path.write_text("/film.mp4\n/holiday.mp4\n")


def packed_log(path: Path) -> None:
    """The log of a site, compressed."""
    plain = path.with_name("plain_log")
    _native.synthesise_log(str(plain), 1, requests=4_000, documents=300)
    path.write_bytes(gzip.compress(plain.read_bytes()))


def shop_log(path: Path) -> None:
    """The log of the shop (`shop_server`): three endpoints, a request a second."""
    targets = ["/", "/search?q=oak", "/search?q=elm", "/api/items?page=1", "/api/items?page=2"]
    lines = []
    for second in range(600):
        stamp = f"21/Nov/2026:10:{second // 60:02d}:{second % 60:02d} +0000"
        target = targets[second % len(targets)]
        lines.append(f'10.0.0.{second % 40} - - [{stamp}] "GET {target} HTTP/1.1" 200 48 "-" "Mozilla/5.0"\n')
    path.write_text("".join(lines))


def block_trace(path: Path) -> None:
    """A trace as libCacheSim has them: time, object, size, and when it is next requested."""
    random = np.random.default_rng(1)
    rows = np.zeros(2_000, dtype=[("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
    rows["time"], rows["object"], rows["size"] = np.arange(2_000), random.zipf(1.5, 2_000), 1 << 20
    path.write_bytes(gzip.compress(rows.tobytes()))


def requests_table(path: Path) -> None:
    """The times of requests at a station that serves four at once."""
    random = np.random.default_rng(2)
    demands = random.exponential(0.01, 1_000)
    accepted = np.cumsum(random.exponential(0.0125, 1_000))
    ended = accepted + _native.simulate_station(accepted, demands, 4)
    polars.DataFrame({"accepted_at_seconds": accepted, "ended_at_seconds": ended}).write_csv(path)


def intervals_table(path: Path) -> None:
    random = np.random.default_rng(3)
    rates = random.uniform(10, 100, 30)
    busy = (0.005 * rates + 0.02) * random.normal(1, 0.01, 30)
    polars.DataFrame({"utilisation": busy, "requests_per_second": rates}).write_parquet(path)


def assessed_run(folder: Path) -> None:
    """The folder of an assessment, made up."""
    write_example(folder)
    log = folder / "log"
    _native.synthesise_log(str(log), 1, requests=4_000, documents=300)
    _native.import_log(str(log)).save(str(folder / "trace.sojourn"))


def users(path: Path) -> None:
    """The users of the shop."""
    path.write_text("name,password\n" + "".join(f"user{number},pw user{number}\n" for number in range(20)))


def flows(path: Path) -> None:
    """A scenario without a login."""
    path.write_text('[[flow]]\n[[flow.request]]\nurl = "/"\n[[flow]]\n[[flow.request]]\nurl = "/search?q=oak"\n')


def configuration(path: Path) -> None:
    path.write_text('root = "public"\nlisten = "127.0.0.1:8080"\n')


SHOP = f"python3 {shlex.quote(str(REPOSITORY / 'tests/shop_server.py'))} 127.0.0.1:8000"
DATABASE = "sojourn serve public --listen 127.0.0.1:5432"
"""Stands for one: it listens."""
SERVER = "sojourn serve public --listen 127.0.0.1:8080"
A_DISPLAY = "it plays on a display"

READERS = {
    "applications": Reader(
        files={"access.log": shop_log, "users.csv": users, "public": public},
        servers=(SHOP, DATABASE),
        instead={"--login login.toml": "--login login.toml --effort quick --max-rate 20"},
    ),
    "cache-misses": Reader(
        files={"site": webstone, "public": public, "films": films},
        instead={
            "sojourn misses": "sojourn misses --repetitions 1",
            "--mix": "--requests 50 --mix",
            "--d1": "--requests 50 --d1",
            "nginx -g 'daemon off;' -c /tmp/nginx.conf": "sojourn-engine serve public --listen 127.0.0.1:8080",
            "--clients 50": "--clients 5 --seconds 2",
        },
        needs=("valgrind", "ffmpeg"),
    ),
    "cache-storage": Reader(files={"access.log.gz": packed_log, "trace.oracleGeneral.bin.gz": block_trace}),
    "calibration": Reader(
        files={
            "runs/monday": assessed_run,
            "runs/tuesday": assessed_run,
            "requests.csv": requests_table,
            "intervals.parquet": intervals_table,
            "public": public,
        },
        servers=(SERVER,),
        # A fit needs four seconds.
        instead={"http://HOST/page": "http://127.0.0.1:8080/page.html", "--duration 30s": "--duration 1500ms"},
    ),
    "ci": Reader(
        files={"shop.toml": flows, "public": public},
        servers=(SHOP, DATABASE),
        instead={" --baseline baseline": "", "--effort quick": "--effort quick --max-rate 60"},
    ),
    "films": Reader(files={"films": films}, left_out={"ffplay": A_DISPLAY}, needs=("ffmpeg",)),
    "load": Reader(files={"site": webstone}, servers=("sojourn serve site --listen 127.0.0.1:8080",)),
    "load-results": Reader(
        files={"public": public},
        servers=(SERVER, "sojourn serve public --listen 127.0.0.1:8081"),
        instead={
            "http://staging:8080/": "http://127.0.0.1:8080/",
            "http://new/": "http://127.0.0.1:8080/",
            "http://old/": "http://127.0.0.1:8081/",
            "duration=30": "duration=1",
            "duration=5)": "duration=0.5, warm_up=0.1, time=2)",
        },
    ),
    "load-streaming": Reader(
        files={"films": films, "films.txt": film_list},
        servers=(
            "sojourn stream films --listen 127.0.0.1:8554",
            "sojourn serve films --hls --listen 127.0.0.1:8080",
        ),
        instead={"--random-start": "--random-start --duration 1s", "--search": "--duration 1s --search"},
        needs=("ffmpeg",),
    ),
    "memory": Reader(
        instead={
            "sojourn memory": "sojourn memory --to 2MiB --repetitions 2 --measure 100us",
            "--cores 1,all": "--density quick --cores 1,all",
        }
    ),
    "operations": Reader(
        files={"new.toml": configuration, "public": public},
        left_out={"kill -HUP": "the server that follows would outlive the page"},
    ),
    "probe": Reader(
        files={"public": public},
        servers=(SERVER,),
        instead={
            "probe --port": "probe --duration 1s --port",
            "4711": "$!",
            "--core 1": f"--core {max(os.sched_getaffinity(0))}",
            "nginx -g 'daemon off;'": "sojourn-engine serve public --listen 127.0.0.1:8081",
        },
    ),
    "proxy": Reader(
        files={"public": public},
        servers=(
            "sojourn serve public --listen 127.0.0.1:9000",
            "sojourn proxy --listen 127.0.0.1:8081 --upstream http://127.0.0.1:9000 --cache-memory 16MiB"
            " --admin-listen 127.0.0.1:9100",
        ),
        instead={"10.0.0.1:3128": "127.0.0.1:3128"},
        left_out={"curl -x http://10.0.0.1:3128": "it asks for pages of other machines"},
    ),
    "scenarios": Reader(files={"users.csv": users}, servers=(SHOP,)),
    # Its progress would be among what it prints.
    "serving": Reader(files={"public": public}, instead={"curl": "curl --silent"}),
    "streaming": Reader(
        files={"films": films},
        left_out={"ffplay": A_DISPLAY, "gst-launch-1.0": A_DISPLAY, "htdigest": "it asks for a password"},
        needs=("ffmpeg",),
    ),
    "studies": Reader(
        left_out=dict.fromkeys(
            ("sojourn study flash", "sojourn study my-study", "sojourn study --all", "sojourn study diskless"),
            "minutes to hours; scripts/quick_studies.py runs every study",
        )
    ),
    "tls": Reader(files={"public": public}),
}
