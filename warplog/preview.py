"""Shows a journal to its author while it is written: what changed is taken in at once, and a page is made
again when someone looks at it.

The rule kept here: whatever an author can break becomes a page that says what to mend, and never the end
of the server. Knows no MkDocs: it is handed what to call.
"""

import re
from collections.abc import Callable, Collection, Iterable
from html import escape
from pathlib import Path
from threading import RLock
from typing import Any
from urllib.parse import unquote

from warplog.fault import Fault

FAULTS = "faults.md"
_DATED = re.compile(r"(?<=/)\d{4}-\d{2}-\d{2}-")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="1">
<title>To be mended</title><style>body{{font:16px/1.6 serif;max-width:40rem;margin:4rem auto;padding:0 1rem}}
pre{{white-space:pre-wrap}}</style><h1>To be mended</h1><p>The site was not built. This page goes as soon as
it is.</p><pre>{message}</pre>"""


class Preview:
    """Stands between a server and an author.

    `take_in` is given the files that changed and returns False where only a whole build can show them;
    `refresh` makes what is at an address of the site again; `build` builds the site whole.
    """

    def __init__(
        self,
        take_in: Callable[[set[Path]], bool],
        refresh: Callable[[str], None],
        build: Callable[[], None],
    ) -> None:
        self._take_in, self._refresh, self._build = take_in, refresh, build
        self._lock = RLock()
        self._changed: set[Path] = set()
        self._fresh: set[str] | None = None
        self._failure = ""

    def hear(self, changed: set[Path]) -> None:
        """Hear of files that changed; they are taken in by the next `rebuild`."""
        with self._lock:
            self._changed |= changed

    def rebuild(self) -> None:
        """Take in what changed, or build the site whole. What goes wrong is shown and not raised."""
        with self._lock:
            changed, self._changed = self._changed, set()
            broken, self._failure = bool(self._failure), ""
            try:
                if changed and not broken and self._take_in(changed):
                    self._fresh = set()
                else:
                    self._build()
                    self._fresh = None
            except (Exception, SystemExit) as error:  # noqa: BLE001 - an author sees it on the page
                self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Show `error` in the place of every page until the next build."""
        words, cause = [str(error) or type(error).__name__], error
        while (before := cause.__cause__ or cause.__context__) is not None:
            words, cause = [*words, str(before)], before
        self._failure = "\n".join(_COLOURS.sub("", each) for each in words if each)

    def application(self, server: Any, mount: str) -> Callable[..., Iterable[bytes]]:
        """Return a WSGI application that makes what is asked for before `server`, one too, hands it out.

        `mount` is the path below which the site is served.
        """

        def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
            if path.startswith(mount) and not path.startswith("/livereload/"):
                with self._lock:
                    self._make(_address(path.removeprefix(mount)))
                    if self._failure:
                        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
                        return [_PAGE.format(message=escape(self._failure)).encode()]
            return server(environ, start_response)  # type: ignore[no-any-return]

        return application

    def _make(self, address: str) -> None:
        """Make what is at `address` again, if anything changed since it was made."""
        if self._fresh is None or address in self._fresh or self._failure:
            return
        try:
            self._refresh(address)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an author sees it on the page
            self.fail(error)
        else:
            self._fresh.add(address)


def _address(path: str) -> str:
    name = unquote(path).lstrip("/")
    return f"{name}index.html" if not name or name.endswith("/") else name


def fault_addresses(places: Collection[str]) -> dict[str, str]:
    """Return where on the site what is wrong with each file is shown, if it is an entry: in the place of
    its page. Where anything is wrong, one more page holds all.
    """
    found = {place: _DATED.sub("", place) for place in places if place.endswith(".md")}
    found |= {FAULTS: FAULTS} if places else {}
    return {place: f"{name.removesuffix('.md')}.html" for place, name in found.items()}


def fault_page(faults: Iterable[Fault]) -> str:
    """Return the Markdown of a page that says what to mend, one line a fault."""
    lines = "".join(f"<li>{escape(str(fault))}</li>" for fault in faults)
    return f"# To be mended\n\n<ol>{lines}</ol>\n"
