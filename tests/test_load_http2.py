"""`sojourn load --http 2`: our server and nginx, in clear text and by TLS; a server that does not speak it."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import SOJOURN, run
from shop_server import shop

QUICK = ("--warm-up", "0s", "--lag-limit", "5s", "--format", "json")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@contextmanager
def serving(folder: Path, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Our server; its address."""
    words = ["--listen", "127.0.0.1:0"]
    if certificate is not None:
        cert, key = map(str, certificate)
        words = ["--tls-listen", "127.0.0.1:0", "--tls-certificate", cert, "--tls-key", key]
    command = [SOJOURN, "serve", str(folder), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            line = next(line for line in server.stderr if "listening on" in line)
            yield line.split("listening on ")[1].split()[0]
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "small.txt").write_text("x" * 500)
    (folder / "large.bin").write_bytes(bytes(3_000_000))
    (folder / "mix").write_text("/small.txt 9 #500\n/large.bin 1 #3000000\n")
    return folder


def loaded(url: str, *options: str | Path) -> dict[str, Any]:
    done = run("load", url, "--http", "2", *options, *QUICK)
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_clients_share_connections_and_their_answers_have_all_moments(site: Path) -> None:
    with serving(site) as address:
        words = ("--mix", site / "mix", "--clients", "6", "--requests", "600")
        found = loaded(f"http://{address}", *words, "--streams", "3")
        assert (found["requests"], found["errors"]) == (600, 0), found["errors_by_cause"]
        assert found["steps"][0]["connections_opened"] == 2
        for latency in ("response_time_seconds", "time_to_first_byte_seconds", "time_to_first_byte_intended_seconds"):
            assert found[latency]["count"] == 600, latency
        assert found["connect_time_seconds"]["count"] == 2
        alone = loaded(f"http://{address}", *words)
        assert alone["steps"][0]["connections_opened"] == 6
        few = loaded(
            f"http://{address}/small.txt", "--clients", "1", "--requests", "40", "--requests-per-connection", "10"
        )
        assert few["steps"][0]["connections_opened"] == 4
        verified = loaded(f"http://{address}", *words, "--verify", "--streams", "6")
        assert verified["errors"] == 0
        missing = run("load", f"http://{address}/none", "--http", "2", "--clients", "2", "--requests", "20", *QUICK)
        assert json.loads(missing.stdout)["errors_by_cause"] == {"status_4xx": 20}


def test_https_has_to_offer_it(site: Path, certificate: tuple[Path, Path]) -> None:
    cert, _ = certificate
    with serving(site, certificate) as address:
        found = loaded(f"https://{address}/small.txt", "--rate", "200", "--duration", "1s", "--cacert", cert)
        assert found["errors"] == 0
        assert found["requests"] > 100
        assert found["handshake_time_seconds"]["count"] >= 1


@pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not installed")
def test_nginx_by_tls(site: Path, certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off; user {getpass.getuser()}; pid {tmp_path}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}; proxy_temp_path {tmp_path}; "
        f"fastcgi_temp_path {tmp_path}; uwsgi_temp_path {tmp_path}; scgi_temp_path {tmp_path};\n"
        f"server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {cert}; ssl_certificate_key {key};\n"
        f"root {site}; keepalive_requests 100; }} }}\n"
    )
    with subprocess.Popen(["/usr/sbin/nginx", "-c", str(config)], stderr=subprocess.DEVNULL) as nginx:
        try:
            wait_for(port)
            words = ("--mix", site / "mix", "--clients", "8", "--streams", "4", "--requests", "1000", "--cacert", cert)
            found = loaded(f"https://127.0.0.1:{port}", *words)
        finally:
            nginx.terminate()
    assert (found["requests"], found["errors"]) == (1000, 0), found["errors_by_cause"]
    assert found["steps"][0]["connections_opened"] >= 10, "nginx ends each after 100 requests"


def test_users_log_in_over_it(site: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        '[[request]]\nname = "page"\nurl = "/small.txt"\n'
        'check.contains = "xxx"\ncheck.header = {"content-length" = "500"}\n'
    )
    with serving(site) as address:
        found = loaded(
            f"http://{address}", "--scenario", scenario, "--clients", "4", "--sessions", "40", "--streams", "4"
        )
        assert [(each["name"], each["requests"]) for each in found["by_name"]] == [("page", 40)]


def test_a_server_that_does_not_speak_it_is_said() -> None:
    with shop() as server:
        words = ("--http", "2", "--clients", "1", "--requests", "3")
        done = run("load", server.url, *words, *QUICK)
        assert json.loads(done.stdout)["errors_by_cause"] == {"http2_not_spoken": 3}
    refused = run("load", "http://127.0.0.1:1", "--clients", "1", "--streams", "2")
    assert refused.returncode == 2
    assert "--http 2" in refused.stderr


def wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("it does not listen")
