"""Chromium without a window, driven over a pipe by its DevTools protocol: what a person would do with a page."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import CHROMIUM

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"),
)
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "End": 35, "Home": 36}


class Page:
    """A tab. The messages of the protocol end with a zero byte."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._count, self._unread = 0, b""
        self._session: str | None = None
        self.complaints: list[str] = []
        """What the page wrote to its console, and errors that nothing caught."""
        self.requested: list[str] = []
        """The addresses that the page asked for."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, address: str) -> None:
        """Opens an address; a page that is open already is loaded anew."""
        self.send("Page.navigate", url="about:blank")
        # A navigation that overtakes another may never be answered.
        self.wait("location.protocol === 'about:'")
        self.send("Page.navigate", url=address)
        self.wait("location.protocol !== 'about:' && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        found = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> None:
        """Waits until an expression is true."""
        poll = f"""new Promise((met, failed) => {{
            const end = performance.now() + {seconds * 1e3};
            const look = () => {{
                if ({condition}) met(true);
                else if (performance.now() > end) met(false);
                else setTimeout(look, 20);
            }};
            look();
        }})"""
        assert self.evaluate(poll), f"{condition} did not come true within {seconds} s"

    def press(self, key: str) -> None:
        """Presses a key on whatever has the focus."""
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        self.send("Input.dispatchKeyEvent", type="rawKeyDown", **code)
        self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        """Types text into whatever has the focus."""
        self.send("Input.insertText", text=text)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and the scheme that its user prefers."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, selector: str | None = None) -> None:
        """A picture of the window, or of the whole element."""
        clip: dict[str, Any] = {}
        if selector is not None:
            box = self.evaluate(
                f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return "
                "[box.x + scrollX, box.y + scrollY, box.width, box.height]; })()"
            )
            place = dict(zip(("x", "y", "width", "height"), box, strict=True))
            clip = {"clip": {**place, "scale": 1}, "captureBeyondViewport": True}
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png", **clip)["data"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            part = os.read(self._reading, 1 << 20)
            if not part:
                raise AssertionError("Chromium ended")
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, event: dict[str, Any]) -> None:
        said = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(said["exceptionDetails"]))
            case "Log.entryAdded":
                self.complaints.append(said["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(said["args"]))
            case "Network.requestWillBeSent":
                self.requested.append(said["request"]["url"])
            case "Page.javascriptDialogOpening":
                # A page with unsaved work asks before it is left.
                accept = {"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
                os.write(self._writing, json.dumps({**accept, "sessionId": self._session}).encode() + b"\0")


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A running Chromium with one tab."""
    assert CHROMIUM is not None
    to_browser, writing = os.pipe()
    reading, from_browser = os.pipe()
    # Chromium reads from descriptor 3 and writes to 4: a shell moves ours there.
    moved = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    command = ["bash", "-c", moved, "chromium", CHROMIUM, *OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(reading, writing)
    finally:
        os.close(writing)
        process.kill()
        process.wait()
        os.close(reading)
