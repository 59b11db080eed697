"""Measures how long the site takes to build beside bare mkdocs-material with the same words.

The rule kept here: both are built in the same run, in fresh processes that take turns, and the least of
the rounds counts; what is judged is the time on the clock and the memory of all processes together, and
how long the processors worked stands beside it. Other work on the machine makes both worse, so run it
alone: `nox -s scale -- --entries 1000`; with the word `live` it measures how soon an edit shows while the
site is served.
"""

import argparse
import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import live
import thousand

COLD_AT_MOST, WARM_AT_MOST, MEMORY_AT_MOST = 1.15, 0.8, 500.0
BENT_AT_MOST = 1.25
SEEN_WITHIN = 1.0
START_AT_LEAST = 8
CACHE = ".cache"
COMMAND = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", "site")
_GLANCE = 0.05
os.environ.setdefault(
    "SITE_URL", "https://warplog.example/"
)  # so that feeds and the sitemap are made too


@dataclasses.dataclass(frozen=True)
class Taken:
    """One build: seconds on the clock, seconds of all processors, the most memory in MiB."""

    clock: float
    worked: float
    memory: float


def build(root: Path, *, cold: bool = False) -> Taken:
    """Build the site of `root` in a fresh process; `cold` removes what earlier builds kept."""
    if cold:
        shutil.rmtree(root / CACHE, ignore_errors=True)
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    start, memory = time.perf_counter(), 0.0
    process = subprocess.Popen(COMMAND, cwd=root, env=environment)
    ended = 0
    while not ended:
        memory = max(memory, resident(process.pid))
        time.sleep(_GLANCE)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    clock = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"the build of {root.name} ended with {process.returncode}")
    worked = usage.ru_utime + usage.ru_stime
    return Taken(clock, worked, max(memory, usage.ru_maxrss / 1024))


def resident(process: int) -> float:
    """Return the memory of a process and of all that it started, in MiB; 0 where it cannot be told."""
    found = 0.0
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        found = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
        found += sum(resident(int(child)) for child in children.split())
    return found


def least(taken: list[Taken]) -> Taken:
    """Return the least of each time over the rounds, and the most of the memory."""
    return Taken(
        min(each.clock for each in taken),
        min(each.worked for each in taken),
        max(each.memory for each in taken),
    )


def side_by_side(folder: Path, entries: int, rounds: int) -> dict[str, Taken]:
    """Build the bare site, the journal from nothing and the journal again, in turns."""
    bare = thousand.bare(folder / f"bare-{entries}", entries)
    ours = thousand.journal(folder / f"journal-{entries}", entries)
    taken: dict[str, list[Taken]] = {"bare": [], "cold": [], "warm": []}
    for number in range(rounds):
        for name in ("bare", "ours") if number % 2 == 0 else ("ours", "bare"):
            if name == "bare":
                taken["bare"].append(build(bare))
            else:
                taken["cold"].append(build(ours, cold=True))
                taken["warm"].append(build(ours))
    return {name: least(each) for name, each in taken.items()}


def growth(folder: Path, entries: int, whole: Taken) -> dict[int, Taken]:
    """Return the cold build of a quarter, of half and of all entries."""
    found = {}
    for part in (entries // 4, entries // 2):
        root = thousand.journal(folder / f"journal-{part}", part)
        found[part] = build(root, cold=True)
    return {**found, entries: whole}


def bend(found: dict[int, Taken]) -> float:
    """Return how much more work an entry of the second half is than one of the second quarter."""
    (quarter, first), (half, second), (whole, third) = sorted(found.items())
    late = (third.worked - second.worked) / (whole - half)
    return late / ((second.worked - first.worked) / (half - quarter))


def goals(taken: dict[str, Taken], found: dict[int, Taken]) -> list[tuple[str, float, float]]:
    """Return what is asked of a build: its name, what was measured, and what it may be at most."""
    bare, cold, warm = taken["bare"], taken["cold"], taken["warm"]
    asked = [
        ("cold / bare", cold.clock / bare.clock, COLD_AT_MOST),
        ("warm / bare", warm.clock / bare.clock, WARM_AT_MOST),
        ("memory in MiB", max(cold.memory, warm.memory), MEMORY_AT_MOST),
    ]
    if found:
        asked.append(("work of a late entry / of an early one", bend(found), BENT_AT_MOST))
    return asked


def report(taken: dict[str, Taken], found: dict[int, Taken], entries: int) -> list[str]:
    """Say what was measured, and return the names of the goals that were missed."""
    say(f"{'build':<24}{'clock':>10}{'worked':>10}{'memory':>10}")
    rows = {f"{name}, {entries} entries": each for name, each in taken.items()}
    rows |= {f"cold, {part} entries": each for part, each in found.items() if part != entries}
    for name, each in rows.items():
        say(f"{name:<24}{each.clock:>8.1f} s{each.worked:>8.1f} s{each.memory:>6.0f} MiB")
    missed = []
    for name, value, limit in goals(taken, found):
        held = value <= limit
        say(f"{name}: {value:.4g}, at most {limit:g}: {'held' if held else 'MISSED'}")
        missed += [] if held else [name]
    say(
        f"on {os.cpu_count()} processors, of which other work wants {os.getloadavg()[1]:.1f} or less"
    )
    return missed


def of_builds(folder: Path, entries: int, rounds: int, *, grows: bool) -> list[str]:
    """Measure builds, say what they took, and return the names of the goals that were missed."""
    taken = side_by_side(folder, entries, rounds)
    return report(taken, growth(folder, entries, taken["cold"]) if grows else {}, entries)


def of_edits(folder: Path, entries: int) -> list[str]:
    """Measure how soon edits show, say it, and return the names of those that took too long."""
    taken = live.measure(thousand.journal(folder / "journal", entries))
    for name, seconds in taken.items():
        say(f"{name:<24}{seconds:>8.2f} s")
    return [name for name in live.EDITS if taken[name] > SEEN_WITHIN]


def say(line: str) -> None:
    """Write a line at once."""
    print(line, flush=True)  # noqa: T201 - it is a command


def main() -> None:
    """Measure, say it, and exit with 1 where a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("builds", "live"), default="builds")
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-growth", action="store_true", help="leave out the smaller journals")
    asked = parser.parse_args()
    entries = max(asked.entries, START_AT_LEAST)
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        if asked.what == "live":
            missed = of_edits(Path(folder), entries)
        else:
            missed = of_builds(Path(folder), entries, asked.rounds, grows=not asked.no_growth)
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
