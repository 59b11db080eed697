"""The host's side: kernels are compiled once a machine, kept as object files, and called with
torch's tensors.

An object file holds the machine code and a function that takes tensors as they are and starts the
kernel on torch's current stream; loading one takes milliseconds, compiling one seconds. CuTe DSL
is imported where it is used, so that whatever needs it can say that it is not here.
"""

import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from importlib import metadata, util
from pathlib import Path
from typing import Any

import torch
from plan import Plan, check_plan, plan_for
from shared.counters import counters
from shared.dsa import CKV, HEADS, KPE, LOG2_E, check
from torch import Tensor

FOLDER = Path(__file__).parent
PACKAGE, FUNCTION = "nvidia-cutlass-dsl-libs-base", "start"
NEEDED = ("cutlass", "tvm_ffi")
INSTALL = "pip install -r artifacts/cutedsl-splits/requirements-gpu.txt"


def missing() -> str:
    """Say what is not installed and how to mend it; an empty string where nothing is."""
    names = [name for name in NEEDED if util.find_spec(name) is None]
    return f"no module {' and no module '.join(names)}: {INSTALL}" if names else ""


def attend(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    *,
    plan: Plan | None = None,
) -> tuple[Tensor, Tensor]:
    """Return output bf16 [T, 16, 512] and lse fp32 [T, 16]; ValueError for what it cannot take."""
    check(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale=sm_scale)
    check_device(q_nope.device)
    tokens, width = sparse_indices.shape
    plan = plan or plan_for(tokens)
    check_plan(plan, width)
    output = torch.empty_like(q_nope)
    lse = torch.empty((tokens, HEADS), dtype=torch.float32, device=q_nope.device)
    parts = (tokens if plan.splits > 1 else 1, plan.splits, HEADS)
    partial, sums = lse.new_empty((*parts, CKV)), lse.new_empty((*parts[:2], 2, HEADS))
    counts = lse.view(-1)  # read by one plan alone
    if plan.lists == "from buffers":
        # region: buffers
        counts = (sparse_indices.view(-1) >= 0).float()
        sparse_indices = sparse_indices.clamp(min=0)
        # endregion
    arrivals = torch.empty(tokens, dtype=torch.int32, device=q_nope.device)  # read by some alone
    if plan.counted:
        arrivals = counters(tokens, q_nope.device)
    function(plan, width)(
        q_nope, q_pe, ckv_cache.view(-1, CKV), kpe_cache.view(-1, KPE), sparse_indices, counts,
        float(sm_scale * LOG2_E), output, lse, partial, sums, arrivals,
    )  # fmt: skip
    return output, lse


def copy_rows(table: Tensor, rows: Tensor, *, way: str) -> Tensor:
    """Return bf16 [n, 512]: the rows of `table` that `rows` lists (int32 [n], whole sixteens),
    zeros for -1.
    """
    check_device(table.device)
    out = table.new_empty((len(rows), table.shape[1]))
    function(way)(table, rows, out)
    return out


def check_device(device: torch.device) -> None:
    """Raise ValueError for a device that the matrix instructions do not run on."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
        raise ValueError(f"the tensors are on {device}: this needs a GPU of compute capability 9.0")


@functools.cache
def function(subject: Plan | str, width: int = 0) -> Any:
    """Load the function of a plan, or of a way to gather; compile it first where no object file is kept.

    A file that cannot be loaded costs the time of a compilation in this process, and a line that says so.
    """
    path = made(subject, width)
    try:
        return loaded(path)
    except Exception as error:  # noqa: BLE001 - whatever it is, there is another way
        print(f"{path.name}: {type(error).__name__}: {error}; compiled in this process")  # noqa: T201
    from build import compiled

    with tempfile.TemporaryDirectory() as folder:
        return compiled(json.loads(named(subject)), width, folder)


def loaded(path: Path) -> Any:
    """Return the function of an object file."""
    from cutlass import cute

    return getattr(cute.runtime.load_module(str(path), enable_tvm_ffi=True), FUNCTION)


def code_of(subject: Plan | str, width: int = 0) -> tuple[str, bytes]:
    """Return the PTX and the machine code of a plan, or of a way to gather."""
    path = made(subject, width)
    return path.with_suffix(".ptx").read_text("utf-8"), path.with_suffix(".cubin").read_bytes()


def made(subject: Plan | str, width: int) -> Path:
    """Return the object file of a plan, or of a way to gather: kept, or compiled now."""
    path = kept(subject, width)
    if not path.exists():
        build([(subject, width)])
    if not path.exists():  # the processes that compile ended before they had
        from build import write

        write(json.loads(named(subject)), width, str(path))
    return path


def kept(subject: Plan | str, width: int = 0) -> Path:
    """Return where the object file of these sources is kept, for this version of CuTe DSL and this Python."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.py")):
        if path.name != "reproduce.py":
            digest.update(path.read_bytes())
    words = [metadata.version(PACKAGE), sys.version, named(subject), str(width)]
    digest.update("\0".join(words).encode())
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "warplog" / "cutedsl" / f"{digest.hexdigest()}.o"


def named(subject: Plan | str) -> str:
    """Write a plan, or a way, as text that `build.py` reads."""
    return json.dumps(asdict(subject) if isinstance(subject, Plan) else subject)


def build(subjects: Iterable[tuple[Plan | str, int]]) -> None:
    """Compile side by side what is not kept yet. Raises RuntimeError for what does not compile."""
    wanted = [(*each, kept(*each)) for each in dict.fromkeys(subjects)]
    told = [each for each in compile_apart(wanted, dict(os.environ)) if each]
    if told:
        raise RuntimeError(f"build.py: {told[0][-2000:]}")


def compile_apart(
    wanted: Iterable[tuple[Plan | str, int, Path]], variables: dict[str, str]
) -> list[str]:
    """Compile in other processes what is not there yet; return what they say of each, mostly nothing."""
    jobs = [
        (json.loads(named(subject)), width, str(path))
        for subject, width, path in wanted
        if not path.exists()
    ]
    if not jobs:
        return []
    paths = variables.get("PYTHONPATH", ""), *sys.path
    told = {"CUTE_DSL_ARCH": "sm_90a", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    told |= {"OPENBLAS_NUM_THREADS": "1"}  # a process that forks has one thread
    command = [sys.executable, str(FOLDER / "build.py")]
    ended = subprocess.run(
        command, input=json.dumps(jobs), check=False, capture_output=True, text=True, env=variables | told
    )  # fmt: skip
    if ended.returncode:
        print(f"build.py ended with {ended.returncode}: {ended.stderr[-2000:]}")  # noqa: T201
        return []
    return json.loads(ended.stdout.strip().splitlines()[-1])
