"""The shop's parts in one folder: how each is started, in which order, and the record of what runs."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from application.knobs import KNOBS, PREFIX, Knobs

from .processes import Failed, Process, answers, free_port, listener, start, wait_until

PASSWORD = "shop"
ORDER = ("database", "external", "application", "worker", "nginx")
"""The order in which the parts start; they end in the reverse order."""
SIGNALS = {"database": signal.SIGINT, "nginx": signal.SIGTERM}
"""SIGINT is PostgreSQL's fast shutdown: it does not wait for connections."""


class System:
    """A shop in a folder."""

    def __init__(self, source: Path, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._record = folder / "shop.json"

    def start(self, knobs: Mapping[str, float], venv: Path | None, log_format: str) -> dict[str, Any]:
        """Starts all parts; those of an earlier start must have ended."""
        if any(self._process(part).runs for part in self._known()["parts"]):
            raise Failed(f"the shop of {self._folder} runs already: shop stop --folder {self._folder}")
        self._folder.mkdir(parents=True, exist_ok=True)
        venv = self._installed(venv.resolve() if venv else self._folder / "venv")
        known = {"venv": str(venv), "log_format": log_format, "secret": secrets.token_hex(16), "parts": {}}
        self._write(known)
        try:
            return self._start_parts(ORDER, knobs)
        except BaseException:
            self.stop()
            raise

    def restart(self, knobs: Mapping[str, float]) -> dict[str, Any]:
        """Starts all but the database again, with other knobs."""
        if "database" not in self._known()["parts"] or not self._process("database").runs:
            raise Failed(f"no shop runs in {self._folder}: shop start --folder {self._folder}")
        parts = ORDER[1:]
        self._end(parts)
        try:
            return self._start_parts(parts, knobs)
        except BaseException:
            self._end(parts)
            raise

    def stop(self) -> None:
        """Ends all parts that still run."""
        self._end(ORDER)

    def status(self) -> dict[str, Any]:
        """Returns the addresses of the shop."""
        known = self._known()
        if not known["parts"] or not all(self._process(part).runs for part in known["parts"]):
            raise Failed(f"no shop runs in {self._folder}: shop start --folder {self._folder}")
        tiers = {
            part: {"name": part, "port": each["port"], "pid": each["pid"]} for part, each in known["parts"].items()
        }
        database = known["parts"]["database"]["port"]
        return {
            "url": f"http://127.0.0.1:{known['parts']['nginx']['port']}",
            "access_log": str(self._folder / "access.log"),
            "database": f"host=127.0.0.1 port={database} dbname=shop user=shop",
            "knobs": known["knobs"],
            "tiers": tiers,
        }

    def _start_parts(self, parts: tuple[str, ...], given: Mapping[str, float]) -> dict[str, Any]:
        known = self._known()
        known["knobs"] = {knob.name: given.get(knob.name, knob.default) for knob in KNOBS}
        knobs = {PREFIX + name.upper(): f"{value:g}" for name, value in known["knobs"].items()}
        for part in parts:
            process, port = getattr(self, f"_start_{part}")(known, knobs)
            known["parts"][part] = {"pid": process.pid, "began": process.began, "port": port}
            self._write(known)
        self._index(known)
        return self.status()

    def _start_database(self, _known: dict[str, Any], knobs: Mapping[str, str]) -> tuple[Process, int]:
        data, log, port = self._folder / "database", self._folder / "database.log", free_port()
        # PostgreSQL refuses to run as root.
        user = None if os.getuid() else _ordinary_user()
        programs = _postgresql()
        is_new = not (data / "PG_VERSION").exists()
        if is_new:
            data.mkdir(exist_ok=True)
            if user:
                shutil.chown(data, user)
                data.chmod(0o700)
                if not _succeeds(["test", "-w", data], user):
                    raise Failed(f"user {user}, whom PostgreSQL runs as, may not go to {data}: give another --folder")
            words = ["--username=shop", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
            _run([programs / "initdb", f"--pgdata={data}", *words], user)
        options = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": 300}
        options |= {"shared_buffers": "64MB", "track_io_timing": "on", "autovacuum_naptime": "300s"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        process = start([programs / "postgres", "-D", data, *words], log, folder=data, user=user)
        self._keep_early("database", process, port)
        reach = ["-h", "127.0.0.1", "-p", str(port), "-U", "shop"]
        wait_until(lambda: _succeeds([programs / "pg_isready", "-q", *reach]), process, log)
        if is_new:
            self._fill(programs, reach, knobs)
        return process, port

    def _fill(self, programs: Path, reach: list[str], knobs: Mapping[str, str]) -> None:
        # One hash for all users: a good hash is slow on purpose, and 500 of them would take half a minute.
        hashing = f"from werkzeug.security import generate_password_hash as g; print(g({PASSWORD!r}), end='')"
        hashed = _run([self._python(), "-c", hashing], None)
        _run([programs / "createdb", *reach, "shop"], None)
        variables = ["-v", f"password={hashed}", "-v", f"products={knobs['SHOP_PRODUCTS']}", "-v", "ON_ERROR_STOP=1"]
        _run([programs / "psql", "-q", *reach, *variables, "-d", "shop", "-f", self._source / "schema.sql"], None)

    def _index(self, known: dict[str, Any]) -> None:
        reach = ["-h", "127.0.0.1", "-p", str(known["parts"]["database"]["port"]), "-U", "shop", "-d", "shop"]
        make = (
            "CREATE INDEX IF NOT EXISTS products_search ON products USING gin "
            "(to_tsvector('simple', name || ' ' || description))"
        )
        drop = "DROP INDEX IF EXISTS products_search"
        _run([_postgresql() / "psql", "-q", *reach, "-c", make if known["knobs"]["search_index"] else drop], None)

    def _start_external(self, known: dict[str, Any], knobs: Mapping[str, str]) -> tuple[Process, int]:
        with listener() as listening:
            number = listening.fileno()
            command = [self._python(), "-m", "application.external", str(number)]
            log = self._folder / "external.log"
            process = start(command, log, {**self._environment(known), **knobs}, self._source, passed=[number])
            return process, listening.getsockname()[1]

    def _start_application(self, known: dict[str, Any], knobs: Mapping[str, str]) -> tuple[Process, int]:
        metrics = self._folder / "metrics"
        shutil.rmtree(metrics, ignore_errors=True)
        metrics.mkdir()
        values = Knobs(knobs)
        # The same port again after a restart, so that nginx need not be reconfigured.
        earlier = known["parts"].get("application")
        with listener(earlier["port"] if earlier else 0) as listening:
            number, log = listening.fileno(), self._folder / "application.log"
            command = [self._python(), "-m", "gunicorn", "--worker-class=gthread", "application.app:create()"]
            command += [f"--workers={values.count('workers')}", f"--threads={values.count('threads')}"]
            command += [f"--bind=fd://{number}", "--keep-alive=60", "--timeout=120", "--backlog=1024"]
            # nginx keeps many connections open; a limit near the number of threads would make others wait.
            # A request may wait half a minute for a database that is gone; the end does not wait for it.
            command += ["--worker-connections=1000", "--no-control-socket", "--graceful-timeout=5"]
            environment = {**self._environment(known), **knobs}
            # Earlier starts are in the log, too.
            begin = log.stat().st_size if log.exists() else 0
            process = start(command, log, environment, self._source, passed=[number])
            port = int(listening.getsockname()[1])
        wait_until(lambda: log.read_bytes()[begin:].count(b"Booting worker") >= values.count("workers"), process, log)
        return process, port

    def _start_worker(self, known: dict[str, Any], knobs: Mapping[str, str]) -> tuple[Process, None]:
        command = [self._python(), "-m", "application.worker"]
        log = self._folder / "worker.log"
        return start(command, log, {**self._environment(known), **knobs}, self._source), None

    def _start_nginx(self, known: dict[str, Any], knobs: Mapping[str, str]) -> tuple[Process, int]:
        values = Knobs(knobs)
        earlier = known["parts"].get("nginx")
        port = earlier["port"] if earlier else free_port()
        text = (
            (self._source / "nginx.conf.template")
            .read_text()
            .format(
                folder=self._folder,
                source=self._source,
                port=port,
                log_format=known["log_format"],
                application_port=known["parts"]["application"]["port"],
                mime_types=_mime_types(),
                nginx_workers=values.count("nginx_workers"),
                gzip="on" if values["gzip_level"] else "off",
                keepalive=f"keepalive {values.count('keepalive')};" if values["keepalive"] else "",
                gzip_level=max(1, values.count("gzip_level")),
                user="" if os.getuid() else "user root;",
            )
        )
        configuration, log = self._folder / "nginx.conf", self._folder / "nginx.log"
        configuration.write_text(text)
        program = _found("nginx", ("/usr/sbin", "/usr/local/sbin"), "nginx-light")
        process = start([program, "-e", self._folder / "nginx-error.log", "-c", configuration], log)
        wait_until(lambda: answers(port), process, log)
        return process, port

    def _environment(self, known: dict[str, Any]) -> dict[str, str]:
        parts = known["parts"]
        environment = {"SHOP_SECRET": known["secret"], "SHOP_METRICS": str(self._folder / "metrics")}
        environment["SHOP_DATABASE"] = f"host=127.0.0.1 port={parts['database']['port']} dbname=shop user=shop"
        if "external" in parts:
            environment["SHOP_EXTERNAL_PORT"] = str(parts["external"]["port"])
        return environment

    def _installed(self, venv: Path) -> Path:
        wanted, done = (self._source / "requirements.txt").read_text(), venv / "shop-requirements.txt"
        venv.mkdir(parents=True, exist_ok=True)
        with (venv / "shop.lock").open("w") as lock:
            # Two shops that start at the same time may share the environment.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists() or done.read_text() != wanted:
                print(f"installing the application's libraries into {venv}", file=sys.stderr)
                _run([sys.executable, "-m", "venv", venv], None)
                pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
                _run([*pip, "-r", self._source / "requirements.txt"], None)
                done.write_text(wanted)
        return venv

    def _python(self) -> Path:
        return Path(self._known()["venv"]) / "bin" / "python"

    def _end(self, parts: tuple[str, ...]) -> None:
        known = self._known()
        for part in reversed(parts):
            if part in known["parts"]:
                self._process(part).end(SIGNALS.get(part, signal.SIGTERM))

    def _process(self, part: str) -> Process:
        each = self._known()["parts"][part]
        return Process(each["pid"], each["began"])

    def _keep_early(self, part: str, process: Process, port: int) -> None:
        """Records a part at once, so that it is ended if a later step fails."""
        known = self._known()
        known["parts"][part] = {"pid": process.pid, "began": process.began, "port": port}
        self._write(known)

    def _known(self) -> dict[str, Any]:
        if not self._record.exists():
            return {"parts": {}}
        return json.loads(self._record.read_text())

    def _write(self, known: dict[str, Any]) -> None:
        partial = self._record.with_suffix(".partial")
        partial.write_text(json.dumps(known, indent=1))
        partial.rename(self._record)


def _ordinary_user() -> str:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Failed("PostgreSQL refuses to be run by root, and there is no user postgres or nobody: run it as a user")


def _postgresql() -> Path:
    # Debian installs the server's programs in a directory that is not in PATH.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4].split(".")[0]))
    if found:
        return found[-1].parent
    return _found("initdb", (), "postgresql").parent


def _mime_types() -> Path:
    return next((path for path in (Path("/etc/nginx/mime.types"),) if path.exists()), Path("/dev/null"))


def _found(program: str, further: tuple[str, ...], package: str) -> Path:
    path = os.pathsep.join([os.environ.get("PATH", ""), *further])
    found = shutil.which(program, path=path)
    if found is None:
        raise Failed(f"there is no {program}: on Debian, apt-get install {package}")
    return Path(found)


def _run(command: list[str | Path], user: str | None) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        user=user,
        group=user,
        extra_groups=[] if user else None,
        cwd="/",
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command[:3]))} failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _succeeds(command: list[str | Path], user: str | None = None) -> bool:
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, user=user, cwd="/")
    return done.returncode == 0
