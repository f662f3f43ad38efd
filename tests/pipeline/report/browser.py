"""Chromium without a window, as a person's eyes and hands: by DevTools' protocol, over a pair of pipes.

    with browser(folder) as chromium:
        page = chromium.open(path, (1280, 1600))
        page.evaluate("document.title")

`machine/chromium` says which program that is. Messages are JSON with a NUL after each; what is sent has a number, by
which its answer is known (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(__file__).parents[3] / "machine/chromium"
PATIENCE_SECONDS = 50.0
_CHUNK_BYTES = 1 << 20
_COMPLAINTS = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
_LOADED = "Page.loadEventFired"
_DRAWN = """new Promise((done) => {
  const look = () => document.documentElement.dataset.drawn ? done(true) : setTimeout(look, 20);
  look();
})"""


class Chromium:
    """`complaints`: what pages wrote to the console, errors included."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._held = b""
        self._number = 0
        self._loaded = False
        """The page has been loaded, its scripts have begun."""
        self.complaints: list[str] = []

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Return the result. Raises AssertionError for an error, or without an answer in time."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda found: found.get("id") == self._number)
        assert "error" not in answer, f"{method}: {answer}"
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path, size: tuple[int, int], *, dark: bool = False) -> Page:
        """A page of `size` (pixels, width and height), once its plots are drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        self._loaded = False
        page.call("Page.navigate", url=path.as_uri())
        if not self._loaded:
            self._until(lambda found: found.get("method") == _LOADED)
        page.evaluate(_DRAWN)
        return page

    def _until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message of that kind from now on. Raises AssertionError if none comes in time."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = self._next(ends)
            if found.get("method") in _COMPLAINTS:
                self.complaints.append(json.dumps(found["params"]))
            self._loaded |= found.get("method") == _LOADED
            if is_it(found):
                return found

    def _next(self, ends: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._reads], [], [], max(ends - time.monotonic(), 0.0))
            assert ready, "chromium does not answer"
            chunk = os.read(self._reads, _CHUNK_BYTES)
            assert chunk, "chromium has ended"
            self._held += chunk
        message, _, self._held = self._held.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


class Page:
    """One that is open, until the browser ends."""

    def __init__(self, chromium: Chromium, session: str) -> None:
        self._chromium = chromium
        self._session = session

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        return self._chromium.call(method, self._session, **parameters)

    def evaluate(self, expression: str) -> Any:
        """What a script's last expression, or the promise that it is, comes to. Raises AssertionError if it throws."""
        options = {"awaitPromise": True, "returnByValue": True}
        found = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self) -> bytes:
        """What can be seen without scrolling, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def printed(self) -> bytes:
        """The page on paper, as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


@contextmanager
def browser(profile: Path) -> Iterator[Chromium]:
    """Raises AssertionError at the end if a page complained."""
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-zygote",
        f"--user-data-dir={profile}", "--remote-debugging-pipe",
    ]  # fmt: skip
    asks, answers = os.pipe(), os.pipe()
    command = ["bash", "-c", f'exec "$@" 3<&{asks[0]} 4>&{answers[1]}', "bash", str(PROGRAM), *options]
    with (profile.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(asks[0], answers[1]), stdout=log, stderr=log)
    os.close(asks[0])
    os.close(answers[1])
    try:
        chromium = Chromium(answers[0], asks[1])
        yield chromium
        assert chromium.complaints == []
    finally:
        process.kill()
        process.wait()
        os.close(asks[1])
        os.close(answers[0])
