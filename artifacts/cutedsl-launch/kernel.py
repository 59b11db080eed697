"""The host's side of `reduction.py`: compiled once a machine for each way, called with torch's tensors.

Object files are kept in the user's cache by a digest of sources, version and way: loading one takes
milliseconds, and compiling half a second, in every process.
"""

import functools
import hashlib
import os
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path
from typing import Any

import torch
from shared.counters import counters
from torch import Tensor

HEADS, COLUMNS = 16, 512
LAST = 0
FOLDER = Path(__file__).parent
PACKAGE, FUNCTION, FFI = "nvidia-cutlass-dsl-libs-base", "start", "--enable-tvm-ffi"
NEEDED = ("cutlass", "tvm_ffi")
INSTALL = "pip install -r artifacts/cutedsl-launch/requirements-gpu.txt"


def missing() -> str:
    """Say what is not installed and how to mend it; an empty string where nothing is."""
    names = [name for name in NEEDED if util.find_spec(name) is None]
    return f"no module {' and no module '.join(names)}: {INSTALL}" if names else ""


def reduce_parts(given: Tensor, given_sums: Tensor, *, weighers: int) -> Tensor:
    """Return bf16 [T, 16, 512] of float32 parts [T, splits, 16, 512] and their sums [T, splits, 2, 16].

    `weighers` blocks a token weigh them, or the last block to arrive does, if it is 0. Raises
    ValueError for others.
    """
    check(given, given_sums, weighers)
    tokens, splits = given.shape[:2]
    output = torch.empty((tokens, HEADS, COLUMNS), dtype=torch.bfloat16, device=given.device)
    parts, sums = torch.empty_like(given), torch.empty_like(given_sums)
    arrivals = torch.empty(tokens, dtype=torch.int32, device=given.device)  # read by one way alone
    if weighers == LAST:
        arrivals = counters(tokens, given.device)
    function(splits, weighers)(given, given_sums, parts, sums, output, arrivals)
    return output


def check(given: Tensor, given_sums: Tensor, weighers: int) -> None:
    """Raise ValueError, naming value and remedy, for what the kernels cannot take."""
    if weighers not in (LAST, 1, 2, 4, 8, 16):
        raise ValueError(f"weighers={weighers}: 16 heads are shared by 1, 2, 4, 8 or 16 blocks")
    if given.ndim != 4 or tuple(given.shape[2:]) != (HEADS, COLUMNS):
        raise ValueError(f"given has shape {list(given.shape)}: it must be [T, splits, 16, 512]")
    wanted = (*given.shape[:2], 2, HEADS)
    if tuple(given_sums.shape) != wanted:
        raise ValueError(
            f"given_sums has shape {list(given_sums.shape)}: it must be {list(wanted)}"
        )
    if given.device.type != "cuda":
        raise ValueError(f"given is on {given.device}: the kernels need a GPU")


@functools.cache
def function(splits: int, weighers: int) -> Any:
    """Load the function for so many splits, so shared; compile it where none is kept that loads."""
    path = kept(splits, weighers)
    if path.exists():
        try:
            return loaded(path)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is another way
            print(f"{path.name}: {type(error).__name__}: {error}; compiled again")  # noqa: T201
    made = compiled(splits, weighers)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made.export_to_c(str(Path(folder) / path.name), function_name=FUNCTION)
        (Path(folder) / path.name).replace(path)
    return made


def loaded(path: Path) -> Any:
    """Return the function of an object file."""
    from cutlass import cute

    return getattr(cute.runtime.load_module(str(path), enable_tvm_ffi=True), FUNCTION)


def kept(splits: int, weighers: int) -> Path:
    """Return where the object file is kept, for these sources, this GPU, version of CuTe DSL and Python."""
    digest = hashlib.sha256((FOLDER / "kernel.py").read_bytes())
    digest.update((FOLDER / "reduction.py").read_bytes())
    words = [metadata.version(PACKAGE), sys.version, arch(), str(splits), str(weighers)]
    digest.update("\0".join(words).encode())
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "warplog" / "cutedsl" / f"{digest.hexdigest()}.o"


def arch() -> str:
    """Return the architecture that is compiled for: this GPU's, or an H200's where there is none."""
    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (9, 0)
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def compiled(splits: int, weighers: int, options: str = "") -> Any:
    """Compile for so many splits, so shared, for any number of tokens."""
    import reduction
    from cutlass import BFloat16, Float32, Int32, cute
    from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

    def tensor(kind: Any, *shape: Any) -> Any:
        order = tuple(reversed(range(len(shape))))
        return make_fake_compact_tensor(kind, shape, stride_order=order, assumed_align=16)

    tokens = cute.sym_int()
    many, few = (tokens, splits, HEADS, COLUMNS), (tokens, splits, 2, HEADS)
    return cute.compile(
        reduction.reduce_parts,
        tensor(Float32, *many), tensor(Float32, *few), tensor(Float32, *many), tensor(Float32, *few),
        tensor(BFloat16, tokens, HEADS, COLUMNS), tensor(Int32, tokens), splits, weighers,
        make_fake_stream(use_tvm_ffi_env_stream=True), options=f"{FFI} --gpu-arch {arch()} {options}".strip(),
    )  # fmt: skip


def batched(given: Tensor, given_sums: Tensor) -> Tensor:
    """Do the same in PyTorch, in float32, all tokens at once."""
    most, total = given_sums.unbind(dim=2)
    base = most.amax(dim=1, keepdim=True)
    weights = torch.exp2(most - base.nan_to_num(neginf=0.0))
    found = (weights[..., None] * given).sum(dim=1)
    sums = (weights * total).sum(dim=1)[..., None]
    return torch.where(sums > 0, found / sums, 0.0).bfloat16()
