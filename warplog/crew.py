"""Makes many entries at once by several processes, so that a first build of a long journal uses all cores.

The rule kept here: a helper only keeps what it made and never decides; whatever one of them could not make
is made again by the build itself, where its faults are heard. All of them end with the build.
"""

import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import astuple

from warplog import gallery
from warplog.cache import Cache
from warplog.fault import Fault, Faults
from warplog.site import Site
from warplog.source import Repository
from warplog.workshop import Workshop

ENTRIES_AT_LEAST = 40
HELPERS_AT_MOST = 2  # each takes about 100 MB
_MOMENT = 0.002


class Crew:
    """Helpers for the entries of `shop` that are not kept in `folder` yet, and for their cards.

    `url` is the address of the repository, `fonts` the folder of the site's fonts.
    """

    def __init__(self, shop: Workshop, folder: Path, url: str, site: Site, fonts: Path) -> None:
        self._shop = shop
        self._words = [*map(str, (shop.repository.root, folder, url, fonts)), *astuple(site)]
        self._helpers: list[subprocess.Popen[str]] = []
        self._makers: dict[str, subprocess.Popen[str]] = {}

    def start(self) -> None:
        """Start the helpers, if there is enough to do, and wait until all entries are judged. Their
        pages come later, the newest first.
        """
        missing = {path.name: key for path in self._shop.paths if (key := self._shop.missing(path))}
        self._shop.before_page = self.wait_for
        names = sorted(missing, reverse=True)
        workers = min(processors(), HELPERS_AT_MOST, len(names) // ENTRIES_AT_LEAST)
        if workers > 1 and self._shop.keeps:
            for number in range(workers):
                self._start({name: missing[name] for name in names[number::workers]})
        for helper in self._helpers:
            if helper.stdout is not None:
                helper.stdout.readline()

    def _start(self, keys: Mapping[str, str]) -> None:
        """Start a helper that makes the entries named in `keys`."""
        around = str(Path(__file__).parents[1])
        search = os.pathsep.join(filter(None, [around, os.environ.get("PYTHONPATH")]))
        helper = subprocess.Popen(
            [sys.executable, "-m", __name__, *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search},
            text=True,
        )
        self._helpers.append(helper)
        self._makers |= dict.fromkeys(keys.values(), helper)
        if helper.stdin is not None:
            with contextlib.suppress(OSError), helper.stdin as share:
                json.dump(keys, share)

    def wait_for(self, key: str) -> None:
        """Wait until what is kept under `key` is there, or its helper has ended without."""
        helper = self._makers.pop(key, None)
        while helper is not None and helper.poll() is None and not self._shop.is_kept(key):
            time.sleep(_MOMENT)

    def join(self) -> None:
        """Wait until the helpers have done all that they can."""
        for helper in self._helpers:
            helper.wait()

    def close(self) -> None:
        """End the helpers that are still at work."""
        for helper in self._helpers:
            helper.terminate()
            helper.wait()
            if helper.stdout is not None:
                helper.stdout.close()
        self._helpers, self._makers = [], {}


def processors() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def main(root: str, folder: str, url: str, fonts: str, *site: str) -> None:
    """Make the entries whose names and keys come as JSON: first judge all, say so, then write each and
    paint its card.
    """
    gc.disable()  # what a helper leaves behind goes with it, soon
    keys = json.load(sys.stdin)
    shop = Workshop(Repository(Path(root)), Cache(Path(folder)), url, keys=keys)
    outcomes = []
    for name in keys:
        with contextlib.suppress(Fault, Faults):
            outcomes.append(shop.outcome(shop.repository.root / "entries" / name))
    sys.stdout.write("\n")
    sys.stdout.flush()
    studio = gallery.Studio(Site(*site), Path(fonts), Path(folder))
    outcomes.reverse()
    while outcomes:
        outcome = outcomes.pop()
        with contextlib.suppress(Fault):
            shop.page(outcome)
            studio.keep(outcome)


if __name__ == "__main__":
    main(*sys.argv[1:])
