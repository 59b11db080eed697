"""One cell of the matrix: call one kernel in one form, say what came of it.

`python cell.py FORM` prints a line of JSON: whether the numbers were right, or what was raised.
`python cell.py --cost` prints the seconds that the host takes for a call, in every form that
starts the kernel, nine samples each. The kernel adds one to each of 32 numbers; it is the same for
all forms. `cells.py` imports this once and answers one after the other.
"""

import ctypes
import fcntl
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [path for path in [os.environ.get("WARPLOG_CUTEDSL_FIRST")] if path]

import torch  # noqa: E402

if not torch.cuda.is_available():  # what is compiled without a GPU is compiled for an H200
    os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")

import cutlass  # noqa: E402 - of the version that the process is told
from cutlass import cute  # noqa: E402
from cutlass.cute.runtime import from_dlpack  # noqa: E402

COUNT, SAMPLES = 32, 9
FEWEST, MOST, SAMPLE = 3, 300, 0.02  # calls of a sample, and its seconds
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ARCH = "" if DEVICE == "cuda" else " --gpu-arch sm_90a"


# region: kernel
@cute.kernel
def add_one(source: cute.Tensor, target: cute.Tensor):
    """One thread adds one to one number."""
    thread, _, _ = cute.arch.thread_idx()
    target[thread] = source[thread] + 1


@cute.jit
def annotated(source: cute.Tensor, target: cute.Tensor):
    """Launch it from a function that says what its arguments are."""
    add_one(source, target).launch(grid=(1, 1, 1), block=(COUNT, 1, 1))


@cute.jit
def unannotated(source, target):
    """Launch it from one that does not."""
    add_one(source, target).launch(grid=(1, 1, 1), block=(COUNT, 1, 1))


# endregion


def bare(source: Any, target: Any) -> None:
    """Launch it from plain Python."""
    add_one(source, target).launch(grid=(1, 1, 1), block=(COUNT, 1, 1))


# region: patch
def patched(source: Any, target: Any) -> None:
    """Launch it from plain Python, with the report's patch: a context around a launch that has none."""
    from cutlass._mlir import ir
    from cutlass.cutlass_dsl.cutlass import KernelLauncher

    launch = KernelLauncher.launch

    def launch_in_context(self, *words, **named):
        if ir.Context.current is not None:
            return launch(self, *words, **named)
        with ir.Context():
            return launch(self, *words, **named)

    KernelLauncher.launch = launch_in_context
    try:
        bare(source, target)
    finally:
        KernelLauncher.launch = launch


# endregion


def views(*tensors: torch.Tensor, **named: bool) -> list[Any]:
    """Wrap torch's tensors as CuTe DSL's."""
    return [from_dlpack(tensor, **named) for tensor in tensors]


def compiled(source: Any, target: Any, function: Callable = annotated, options: str = "") -> Any:
    """Compile for these arguments."""
    return cute.compile(function, source, target, options=(options + ARCH).strip())


def exported(folder: str, source: torch.Tensor, target: torch.Tensor) -> Callable:
    """Write the compiled function as an object file, load that, and return its function."""
    compiled(*views(source, target)).export_to_c(
        file_path=folder, file_name="one", function_prefix="one"
    )
    return cute.runtime.load_module(str(Path(folder) / "one.o")).one


def call_exported(source: torch.Tensor, target: torch.Tensor) -> None:
    """Call the function of an object file once."""
    with tempfile.TemporaryDirectory() as folder:
        exported(folder, source, target)(*views(source, target))
        finish()


def handles(source: torch.Tensor, target: torch.Tensor) -> dict[str, Callable[[], None]]:
    """Load the machine code with the driver; return what launches its kernel by its handle: through
    NVIDIA's bindings, and through ctypes.
    """
    from cuda.bindings import driver

    with tempfile.TemporaryDirectory() as folder:
        options = f"--keep-cubin --dump-dir={folder}"
        code = compiled(*views(source, target), options=options).__cubin__
    module = _checked(driver.cuModuleLoadData(code))
    count = _checked(driver.cuModuleGetFunctionCount(module))
    kernel = _checked(driver.cuModuleEnumerateFunctions(count, module))[0]
    values = [ctypes.c_void_p(each.data_ptr()) for each in (source, target)]
    addresses = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    where, number = ctypes.addressof(addresses), int(kernel)
    start = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    start.argtypes = [ctypes.c_void_p] + 7 * [ctypes.c_uint] + 3 * [ctypes.c_void_p]

    def launch() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        _checked(driver.cuLaunchKernel(kernel, 1, 1, 1, COUNT, 1, 1, 0, stream, where, 0))

    def launch_by_ctypes() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        _checked((start(number, 1, 1, 1, COUNT, 1, 1, 0, stream, where, None),))

    launch.keeps = launch_by_ctypes.keeps = values, addresses, module
    return {"handle": launch, "handle, by ctypes": launch_by_ctypes}


def _checked(result: tuple[Any, ...]) -> Any:
    code, *values = result
    if int(code):
        raise RuntimeError(f"CUDA driver: {code!r}")
    return values[0] if values else None


def finish() -> None:
    """Wait for the GPU."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


FFI = "--enable-tvm-ffi"
# Those that start with `switch` are called with CUTE_DSL_ENABLE_TVM_FFI=1, as the report's.
FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "kernel": lambda *pair: bare(*views(*pair)),
    "kernel, patched": lambda *pair: patched(*views(*pair)),
    "jit, views": lambda *pair: annotated(*views(*pair)),
    "jit, tensors": annotated,
    "jit without annotations, views": lambda *pair: unannotated(*views(*pair)),
    "jit without annotations, tensors": unannotated,
    "switch, views": lambda *pair: annotated(*views(*pair, enable_tvm_ffi=True)),
    "switch, tensors": annotated,
    "switch without annotations, views": lambda *pair: unannotated(
        *views(*pair, enable_tvm_ffi=True)
    ),
    "switch without annotations, tensors": unannotated,
    "compiled, views": lambda *pair: compiled(*views(*pair))(*views(*pair)),
    "compiled, tensors": lambda *pair: compiled(*views(*pair))(*pair),
    "compiled from tensors": lambda *pair: compiled(*pair)(*pair),
    "compiled for tvm-ffi, tensors": lambda *pair: compiled(*views(*pair), options=FFI)(*pair),
    "compiled for tvm-ffi without annotations, tensors": lambda *pair: compiled(
        *views(*pair), function=unannotated, options=FFI
    )(*pair),
    "compiled for tvm-ffi from tensors": lambda *pair: compiled(*pair, options=FFI)(*pair),
    "object file, views": call_exported,
    "handle": lambda *pair: handles(*pair)["handle"](),
}


def attempt(form: str) -> dict[str, Any]:
    """Call in one form; say whether the numbers are there, or what was raised."""
    source = torch.arange(COUNT, dtype=torch.float32, device=DEVICE)
    target = torch.full_like(source, -1)
    found: dict[str, Any] = {"version": cutlass.__version__, "right": False, "message": ""}
    try:
        FORMS[form](source, target)
        finish()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return found | {"message": f"{type(error).__name__}: {error}"}
    return found | {"right": bool((target == source + 1).all())}


# region: cost
def costs() -> dict[str, list[float]]:
    """Return the seconds that the host takes for a call, in every form that starts the kernel."""
    source = torch.arange(COUNT, dtype=torch.float32, device=DEVICE)
    target = torch.empty_like(source)
    pair, ready = (source, target), views(source, target)
    with tempfile.TemporaryDirectory() as folder:
        function, plain = compiled(*ready), exported(folder, *pair)
        direct = compiled(*ready, options=FFI)
        ways = {
            "jit, views": lambda: annotated(*ready),
            "jit, views made anew": lambda: annotated(*views(*pair)),
            "compiled, views": lambda: function(*ready),
            "compiled, views made anew": lambda: function(*views(*pair)),
            "compiled for tvm-ffi, tensors": lambda: direct(*pair),
            "object file, views": lambda: plain(*ready),
            **handles(*pair),
            "asking for the stream": lambda: torch.cuda.current_stream().cuda_stream,
            "torch.add": lambda: torch.add(source, 1, out=target),
        }
        for call in ways.values():
            call()
        with Path(__file__).open("rb") as turn:  # another version is timed before or after
            fcntl.flock(turn, fcntl.LOCK_EX)
            return {name: _seconds(call) for name, call in ways.items()}


def _seconds(call: Callable[[], Any]) -> list[float]:
    """Time so many calls in a row, without waiting for the GPU in between: as many as fit into a sample,
    since a form that traces its function anew takes a thousand times as long as a handle.
    """
    calls = calls_of(_of_each(call, FEWEST))
    return [_of_each(call, calls) for _ in range(SAMPLES + 1)][1:]


def calls_of(seconds: float) -> int:
    """Return how many calls of so many seconds a sample has."""
    return max(FEWEST, min(MOST, int(SAMPLE / seconds)))


def _of_each(call: Callable[[], Any], calls: int) -> float:
    finish()
    started = time.perf_counter()
    for _ in range(calls):
        call()
    seconds = (time.perf_counter() - started) / calls
    finish()
    return seconds


# endregion


def answer(word: str) -> dict[str, Any]:
    """Return what comes of a form, or of `--cost`."""
    return costs() if word == "--cost" else attempt(word)


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(answer(sys.argv[1])) + "\n")
