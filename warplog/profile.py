"""Evidence that is not time: Nsight Compute counters, kernels launched, PTX and SASS instructions.

The rule kept here: a counter is named as its tool names it, and one that could not be read is absent.
"""

import csv
import io
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PREFIX = "warplog"
_OPCODE = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?%?\w+\s+)?([A-Za-z][\w.:]*)", re.MULTILINE)
_SCALES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BASES = {
    "byte": "B",
    "byte/second": "B/s",
    "second": "s",
    "s": "s",
    "%": "%",
    "inst": "instructions",
}


@dataclass(frozen=True)
class Launch:
    """One kernel launch: its name, grid and block, registers a thread, shared bytes a block."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared: int


def launches(call: Callable[[], Any]) -> list[Launch]:
    """Return the kernels that `call()` launches on the GPU, in order, as CUPTI saw them."""
    import torch  # noqa: PLC0415 - the parent process reads tables here without torch
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - slow to import

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        found.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    return [_launch(event) for event in sorted(kernels, key=lambda event: event["ts"])]


def _launch(event: dict[str, Any]) -> Launch:
    facts = event["args"]
    return Launch(
        event["name"],
        tuple(facts["grid"]),
        tuple(facts["block"]),
        facts["registers per thread"],
        facts["shared memory"],
    )


def instructions(code: str, opcode: str) -> int:
    """Return how many instructions of PTX or SASS text have `opcode` or it followed by a dot."""
    found = (match.group(1) for match in _OPCODE.finditer(code))
    return sum(name == opcode or name.startswith(opcode + ".") for name in found)


def sass(cubin: bytes) -> str:
    """Disassemble a cubin with the nvdisasm that Triton's package carries."""
    import triton  # noqa: PLC0415 - only where a cubin is at hand

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [str(tool), "-c", file.name], capture_output=True, text=True, check=True
        )
    return done.stdout


class Counting:
    """The extra process under Nsight Compute: marks each profiled call as a range of its own."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        """`write` takes one event a range, in order."""
        self._write = write
        self._ranges = 0

    def region(
        self,
        call: Callable[[], Any],
        subject: str,
        counters: Sequence[str],
        workload: dict[str, Any],
    ) -> None:
        """Run `call()` once unseen, then once as range number n, and say what n was."""
        import torch  # noqa: PLC0415 - the parent process reads tables here without torch

        call()
        torch.cuda.synchronize()
        name = f"{_PREFIX}{self._ranges}"
        self._ranges += 1
        torch.cuda.nvtx.range_push(name)
        call()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        what = {"subject": subject, "counters": list(counters), "workload": workload}
        self._write({"event": "range", "range": name, **what})


def command(counters: Sequence[str], log: Path, program: Sequence[str]) -> list[str]:
    """Return the command line that runs `program` under Nsight Compute and writes CSV to `log`.

    Clocks are left as they are: locking them would change the card for others.
    """
    return [
        "ncu",
        "--clock-control=none",
        "--cache-control=all",
        "--target-processes=application-only",
        "--nvtx",
        "--nvtx-include",
        f"regex:{_PREFIX}[0-9]+/",
        "--csv",
        "--page=raw",
        "--print-nvtx-rename=kernel",
        f"--log-file={log}",
        f"--metrics={','.join(counters)}",
        *program,
    ]


def read_counters(table: str, ranges: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Turn Nsight Compute's CSV into measurements: each counter summed over its range's kernels.

    A ratio (``.pct``, ``.ratio``, ``.avg``) is averaged over the kernels instead.
    """
    start = table.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(table[start:]))) if start >= 0 else []
    if not rows:
        return []
    units, kernels = rows[0], rows[1:]
    measurements = []
    for each in ranges:
        own = [row for row in kernels if _in_range(row, each["range"])]
        for counter in each["counters"]:
            values = [_number(row[counter], units[counter]) for row in own if row.get(counter)]
            if values:
                measurements.append(
                    {
                        "metric": counter,
                        "unit": values[0][1],
                        "subject": each["subject"],
                        "workload": each["workload"],
                        "runs": [[_together(counter, [value for value, _ in values])]],
                    }
                )
    return measurements


def _in_range(row: dict[str, str], name: str) -> bool:
    """Return whether a row of the CSV lies in the range called `name`: some NVTX column says so."""
    pattern = re.compile(rf"\b{name}\b")
    return any(pattern.search(value or "") for key, value in row.items() if key and "Range" in key)


def _together(counter: str, values: list[float]) -> float:
    mean = any(part in counter for part in (".pct", ".ratio", ".avg", ".max"))
    return sum(values) / len(values) if mean else sum(values)


def _number(text: str, unit: str) -> tuple[float, str]:
    """Return a value in SI: ``"1.5", "Mbyte"`` is ``(1.5e6, "B")``."""
    value = float(text.replace(",", ""))
    for prefix, scale in sorted(_SCALES.items(), key=lambda item: -len(item[0])):
        base = unit[len(prefix) :]
        if unit.startswith(prefix) and base in _BASES:
            return value * scale, _BASES[base]
    return value, unit or "count"
