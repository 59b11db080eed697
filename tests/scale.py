"""Measures how long the site takes to build beside bare mkdocs-material with the same words.

The rule kept here: both are built in the same run, in fresh processes that take turns, and the least of
the rounds counts; what is judged is the time that the processors worked, which other work on the machine
hardly changes, and the time on the clock stands beside it. Run it as `nox -s scale -- --entries 1000`.
"""

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import thousand

COLD_AT_MOST, WARM_AT_MOST, MEMORY_AT_MOST = 1.15, 0.8, 500.0
BENT_AT_MOST = 1.25
START_AT_LEAST = 8
CACHE = ".cache"
COMMAND = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet")


@dataclasses.dataclass(frozen=True)
class Taken:
    """One build: seconds of the processors, seconds on the clock, the most memory in MiB."""

    worked: float
    clock: float
    memory: float


def build(root: Path, *, cold: bool = False) -> Taken:
    """Build the site of `root` in a fresh process; `cold` removes what earlier builds kept."""
    if cold:
        shutil.rmtree(root / CACHE, ignore_errors=True)
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    start = time.perf_counter()
    process = subprocess.Popen([*COMMAND, "-d", "site"], cwd=root, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    clock = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"the build of {root.name} ended with {process.returncode}")
    return Taken(usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss / 1024)


def least(taken: list[Taken]) -> Taken:
    """Return the least of each number over the rounds, but the most of the memory."""
    return Taken(
        min(each.worked for each in taken),
        min(each.clock for each in taken),
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
    """Return how much more an entry of the second half takes than one of the second quarter."""
    (quarter, first), (half, second), (whole, third) = sorted(found.items())
    late = (third.worked - second.worked) / (whole - half)
    return late / ((second.worked - first.worked) / (half - quarter))


def verdicts(taken: dict[str, Taken], found: dict[int, Taken]) -> list[tuple[str, float, float]]:
    """Return what is asked of a build: its name, what was measured, and what it may be at most."""
    bare, cold, warm = taken["bare"], taken["cold"], taken["warm"]
    asked = [
        ("cold / bare", cold.worked / bare.worked, COLD_AT_MOST),
        ("warm / bare", warm.worked / bare.worked, WARM_AT_MOST),
        ("memory in MiB", max(cold.memory, warm.memory), MEMORY_AT_MOST),
    ]
    if found:
        asked.append(("time of a late entry / of an early one", bend(found), BENT_AT_MOST))
    return asked


def report(taken: dict[str, Taken], found: dict[int, Taken], entries: int) -> list[str]:
    """Print what was measured, and return the names of the goals that were missed."""
    print(f"{'build':<24}{'worked':>10}{'clock':>10}{'memory':>10}")
    rows = {f"{name}, {entries} entries": each for name, each in taken.items()}
    rows |= {f"cold, {part} entries": each for part, each in found.items() if part != entries}
    for name, each in rows.items():
        print(f"{name:<24}{each.worked:>8.1f} s{each.clock:>8.1f} s{each.memory:>6.0f} MiB")
    missed = []
    for name, value, limit in verdicts(taken, found):
        held = value <= limit
        print(f"{name}: {value:.4g}, at most {limit:g}: {'held' if held else 'MISSED'}")
        missed += [] if held else [name]
    clocks = taken["cold"].clock / taken["bare"].clock, taken["warm"].clock / taken["bare"].clock
    print(f"by the clock: cold / bare {clocks[0]:.2f}, warm / bare {clocks[1]:.2f}")
    return missed


def main() -> None:
    """Measure, print, and exit with 1 where a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-growth", action="store_true", help="leave out the smaller journals")
    asked = parser.parse_args()
    entries = max(asked.entries, START_AT_LEAST)
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        taken = side_by_side(Path(folder), entries, asked.rounds)
        found = {} if asked.no_growth else growth(Path(folder), entries, taken["cold"])
    missed = report(taken, found, entries)
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
