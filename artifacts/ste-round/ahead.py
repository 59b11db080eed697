"""What torch.compile makes, made ahead by several processes at once where nothing lies on disk yet.

Most of a first process would be compilation, one graph after another. Here each way is compiled by a process
of its own into the cache on disk that all share, while the first process does what is not timed. Where
that fails, the way is compiled where it is first called.

    python ahead.py WAY    compiles a way at all its sizes
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

SECONDS = 90
HERE = Path(__file__).parent
JOBS = ("functions", "round only", "round only, scales detached", "naive", "whole layer",
        "linear, normed")  # fmt: skip


def mark():
    """Return a file in the cache that says that all of this was compiled by these very sources."""
    import torch
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    found = hashlib.sha256(torch.__version__.encode())
    for source in (
        *sorted(HERE.glob("*.py")),
        *sorted((HERE.parent / "shared").glob("bitnet*.py")),
    ):
        found.update(source.read_bytes())
    return Path(cache_dir()) / f"ste-round-{found.hexdigest()[:16]}"


def start(jobs=JOBS, command=(sys.executable, str(HERE / "ahead.py"))):
    """Start a process for each way, unless the cache is marked; return them by name."""
    if mark().exists():
        return {}
    threads = str(max(1, (os.cpu_count() or 1) // len(jobs)))
    surroundings = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TORCHINDUCTOR_COMPILE_THREADS": threads,
    }
    return {
        job: subprocess.Popen(
            [*command, job],
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for job in jobs
    }


def finish(processes, seconds=SECONDS):
    """Wait until all are done; mark the cache if they did well, otherwise print what they said."""
    well = bool(processes)
    for job, process in processes.items():
        try:
            _, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
        if process.returncode:
            well = False
            print(f"{job}: not compiled ahead: {said[-300:]}")  # noqa: T201 - for who reads it
    if well:
        mark().touch()


def compile_way(name, device):
    """Make a step of a way at each size of which it is compiled."""
    from kernel import compiled_ways
    from sizes import call_at_all

    call_at_all(compiled_ways([name])[f"{name}, compiled"], name, device)


if __name__ == "__main__":
    import torch

    compile_way(sys.argv[1], torch.device("cuda"))
