"""Measures how long an edit takes from the saved file to the page in a browser, while the site is served.

The rule kept here: the clock starts when the file is closed and stops when the page that a browser asks for
after the reload shows the edit; the browser is played by two requests, as MkDocs' own script sends them.
`scale.py` is its command.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import msgspec

from warplog.record import dumps, loads
from warplog.store import file_name

COMMAND = (sys.executable, "-m", "mkdocs", "serve", "--no-strict")
PATIENCE = 900.0
_EPOCH = re.compile(r"livereload\((\d+), (\d+)\)")


class Author:
    """Someone who serves the journal at `root`, edits files, and looks at pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = f"127.0.0.1:{_free_port()}"
        self._epoch = self._request = "0"

    def __enter__(self):
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        self._server = subprocess.Popen([*COMMAND, "-a", self.host], cwd=self.root, env=environment)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._server.poll() is None:
            with contextlib.suppress(OSError):
                self.look("index.html")
                return self
            time.sleep(0.1)
        message = "the server did not come up"
        raise TimeoutError(message)

    def __exit__(self, *_):
        self._server.terminate()
        self._server.wait()

    def look(self, address: str) -> str:
        """Return a page as a browser gets it, and remember its version."""
        text = self._get(f"/{address}")
        found = _EPOCH.search(text)
        self._epoch, self._request = found.groups() if found else ("0", "0")
        return text

    def wait(self) -> None:
        """Wait as an open page does, until there is a newer version."""
        self._get(f"/livereload/{self._epoch}/{self._request}")

    def _get(self, path: str) -> str:
        with contextlib.closing(HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode("utf-8")

    def sees(self, address: str, path: Path, text: str, words: str) -> float:
        """Open a page, save `text` as `path`, and return the seconds until the page shows `words`."""
        self.look(address)
        path.write_text(text, encoding="utf-8", newline="\n")
        start = time.perf_counter()
        while words not in self.look(address):
            if time.perf_counter() - start > PATIENCE:
                message = f"{words!r} never shows on {address}"
                raise TimeoutError(message)
            self.wait()
        return time.perf_counter() - start


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def edits(root: Path) -> dict[str, tuple[str, Path, str, str]]:
    """Return what an author does, by name: the page looked at, the file, its new text, what shows then."""
    path = min((root / "entries").glob("*.md"))
    slug = path.stem[11:]
    page, text = f"entries/{slug}.html", path.read_text(encoding="utf-8")
    folder = root / "artifacts" / slug
    kernel = (folder / "kernel.py").read_text(encoding="utf-8")
    record = min(folder.glob("records/nvidia-h200/*.json"))
    changed = kernel.replace("# region: first\n", "# region: first\n# A caracal.\n")
    later = msgspec.structs.replace(
        loads(record.read_bytes(), record.name),
        recorded="2026-01-02T03:04:05Z",
        disturbed=["a kettle boiled"],
    )
    seen = [
        (page, path, f"{text}\nA new word: oxpecker.\n", "oxpecker"),
        (page, path, f"{text}\n[?](#ghost)\n", "no claim, value or heading"),
        (page, path, f"{text}\nMended: bulbul.\n", "bulbul"),
        (page, record.with_name(file_name(later.recorded)), dumps(later), "a kettle boiled"),
        (page, folder / "kernel.py", changed, "caracal"),
    ]
    return dict(zip(EDITS, seen, strict=True))


EDITS = (
    "an edit of the entry",
    "an edit that is wrong",
    "the edit mended",
    "a new record",
    "an edit of the kernel",
)


def measure(root: Path) -> dict[str, float]:
    """Return the seconds that each edit takes to show, and those until the server is up."""
    start = time.perf_counter()
    with Author(root) as author:
        taken = {"until the server is up": time.perf_counter() - start}
        for name, (page, path, text, words) in edits(root).items():
            taken[name] = author.sees(page, path, text, words)
    return taken
