"""Compile one kernel, without a GPU: `python build.py PLAN_OR_WAY WIDTH FILE.o`, or `FILE.ptx` for
the PTX alone.

Beside an object file it leaves the PTX and the machine code. The version of March 2026 looks for a
driver before the first compilation of a process, fails where there is none, and does not look
again: the second one succeeds.
"""

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [path for path in [os.environ.get("WARPLOG_CUTEDSL_FIRST")] if path]

from cutlass import BFloat16, Float32, Int32, cute  # noqa: E402 - of the version that the process is told
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream  # noqa: E402
from plan import Plan  # noqa: E402

ARCH = "sm_90a"
FUNCTION = "start"


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


def main(subject: str, width: str, target: str) -> None:
    """Write the object file last, so that whoever finds it finds all three."""
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        callable_ = path.suffix == ".o"
        if not callable_:
            with contextlib.suppress(Exception):
                compiled(json.loads(subject), int(width), folder, callable_=False)
        kernel = compiled(json.loads(subject), int(width), folder, callable_=callable_)
        path.with_suffix(".ptx").write_text(kernel.__ptx__, "utf-8")
        if not callable_:
            return
        path.with_suffix(".cubin").write_bytes(kernel.__cubin__)
        written = Path(folder) / "kernel.o"
        kernel.export_to_c(str(written), function_name=FUNCTION)
        written.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
