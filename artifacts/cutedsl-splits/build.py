"""Compile kernels side by side, without a GPU.

`python build.py` reads a list of [plan or way, width, file] in JSON, and writes a list of what went
wrong with each, which is nothing for most. A file is an object file, beside which it leaves the PTX
and the machine code, or a `.ptx` alone. CuTe DSL is imported once, by a process that forks those
that compile.

The version of March 2026 looks for a driver before the first compilation of a process, fails where
there is none, and does not look again: the second one succeeds.
"""

import json
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path[:0] = [path for path in [os.environ.get("WARPLOG_CUTEDSL_FIRST")] if path]

from shared.cutedsl_older import driver_untouched  # noqa: E402 - found where the process is told

with driver_untouched():
    from cutlass import BFloat16, Float32, Int32, cute
    from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from plan import Plan  # noqa: E402

ARCH = "sm_90a"
FUNCTION = "start"
NO_DRIVER = "CudaDriverDependencyError"


def tensor(kind: Any, *shape: Any) -> Any:
    """Stand in for a contiguous tensor that starts at a multiple of 16 bytes."""
    order = tuple(reversed(range(len(shape))))
    return make_fake_compact_tensor(kind, shape, stride_order=order, assumed_align=16)


def compiled(subject: Any, width: int, folder: str, *, callable_: bool = True) -> Any:
    """Compile the kernel of a plan, or the gather in one way; `callable_` with torch's tensors."""
    options = f"--gpu-arch {ARCH} --keep-ptx --keep-cubin --dump-dir={folder}"
    stream = make_fake_stream(use_tvm_ffi_env_stream=callable_)
    if callable_:
        options += " --enable-tvm-ffi"
    if isinstance(subject, str):
        from gather import COLUMNS, WAYS, gather

        if subject not in WAYS:
            raise ValueError(f"no way to gather {subject!r}: use one of {', '.join(WAYS)}")
        table, places = cute.sym_int(), cute.sym_int(divisibility=16)
        tensors = (
            tensor(BFloat16, table, COLUMNS),
            tensor(Int32, places),
            tensor(BFloat16, places, COLUMNS),
        )
        return cute.compile(gather, *tensors, subject, stream, options=options)
    from attend import Attend

    plan = Plan(**subject)
    arguments = arguments_of(plan, width)
    return cute.compile(Attend(plan, width), *arguments, stream, options=options)


def arguments_of(plan: Plan, width: int) -> tuple[Any, ...]:
    """Stand in for the arguments of `Attend`, for any number of tokens and rows."""
    tokens, rows, places = cute.sym_int(), cute.sym_int(), cute.sym_int()
    parted = tokens if plan.splits > 1 else 1
    return (
        tensor(BFloat16, tokens, 16, 512), tensor(BFloat16, tokens, 16, 64),
        tensor(BFloat16, rows, 512), tensor(BFloat16, rows, 64),
        tensor(Int32, tokens, width), tensor(Float32, places), Float32(1.0),
        tensor(BFloat16, tokens, 16, 512), tensor(Float32, tokens, 16),
        tensor(Float32, parted, plan.splits, 16, 512), tensor(Float32, parted, plan.splits, 2, 16),
        tensor(Int32, tokens),
    )  # fmt: skip


def write(subject: Any, width: int, target: str) -> None:
    """Write the object file last, so that whoever finds it finds all three."""
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    callable_ = path.suffix == ".o"
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        try:
            kernel = compiled(subject, width, folder, callable_=callable_)
        except Exception as error:
            if NO_DRIVER not in str(error):
                raise
            kernel = compiled(subject, width, folder, callable_=callable_)
        path.with_suffix(".ptx").write_text(kernel.__ptx__, "utf-8")
        if not callable_:
            return
        path.with_suffix(".cubin").write_bytes(kernel.__cubin__)
        written = Path(folder) / "kernel.o"
        kernel.export_to_c(str(written), function_name=FUNCTION)
        written.replace(path)


def attempt(job: tuple[Any, int, str]) -> str:
    """Say what went wrong; an empty string where nothing did."""
    try:
        write(*job)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Compile what is asked for, so many at once as there are processors."""
    jobs = json.load(sys.stdin)
    workers = min(len(jobs), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        told = list(pool.map(attempt, jobs))
    sys.stdout.write("\n" + json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
