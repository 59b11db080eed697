"""CUDA C++ at run time: NVRTC builds a kernel once a machine, the driver loads and starts it.

Binaries are kept under the user's cache folder (XDG_CACHE_HOME, or ~/.cache), by a digest of the
sources, the options and the compiler's version, so that fresh processes need not compile again.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

TARGETS = ("ptx", "cubin")


@functools.cache
def compile_source(
    source: Path, arch: str = "sm_90a", target: str = "cubin", **defines: object
) -> bytes:
    """Compile a .cu file with NVRTC, which needs no GPU and no driver; headers are found beside it.

    `target` is "ptx" or "cubin"; `defines` are the macros. Raises RuntimeError with the compiler's
    log if it does not compile.
    """
    from cuda.bindings import nvrtc

    options = [f"--gpu-architecture={arch}", "--std=c++17", f"--include-path={source.parent}"]
    options += [f"--define-macro={macro}={value}" for macro, value in sorted(defines.items())]
    version = nvrtc.nvrtcVersion()[1:]
    kept = _kept(source, [arch, target, *options[3:], *map(str, version)]).with_suffix(f".{target}")
    with contextlib.suppress(OSError):
        return kept.read_bytes()
    code = _compile(source, options, target)
    with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
        _write_whole(kept, code)
    return code


def _compile(source: Path, options: list[str], target: str) -> bytes:
    from cuda.bindings import nvrtc

    program = check(nvrtc.nvrtcCreateProgram(source.read_bytes(), source.name.encode(), 0, [], []))
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), [option.encode() for option in options]
    )
    if int(status[0]) != 0:
        log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program)))
        check(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(f"{source.name}: {status[0]!r}\n{log.decode()}")
    size, read = {
        "ptx": (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
        "cubin": (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
    }[target]
    code = bytearray(check(size(program)))
    check(read(program, code))
    check(nvrtc.nvrtcDestroyProgram(program))
    return bytes(code)


def _kept(source: Path, words: list[str]) -> Path:
    """Return where the binary of these sources and options is kept."""
    digest = hashlib.sha256("\0".join(words).encode())
    for path in (source, *sorted(source.parent.glob("*.cuh"))):
        digest.update(path.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "warplog" / "cuda" / digest.hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)


def check(result: tuple[Any, ...]) -> Any:
    """Take the value out of a driver call's result; raises RuntimeError if the call failed."""
    code, *values = result
    if int(code) != 0:
        raise RuntimeError(f"CUDA driver: {code!r}")
    return values[0] if values else None


def function(source: Path, entry: str, shared: int = 0, cluster: int = 1, **defines: object) -> Any:
    """Build and load the kernel `entry` of a .cu file for torch's current GPU, once a process and GPU.

    `shared` is the dynamic shared memory that a launch will ask for, in bytes; `cluster` the blocks
    of a cluster, of which more than 8 need the kernel's leave.
    """
    return _function(torch.cuda.current_device(), source, entry, shared, cluster, **defines)


@functools.cache
def _function(
    device: int, source: Path, entry: str, shared: int, cluster: int, **defines: object
) -> Any:
    """Build and load a kernel for GPU number `device`."""
    from cuda.bindings import driver

    major, minor = torch.cuda.get_device_capability(device)
    make_current(device)
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    code = compile_source(source, arch, "cubin", **defines)
    loaded = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(code)), entry.encode()))
    attribute = driver.CUfunction_attribute
    if shared > 48 * 1024:
        limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(driver.cuFuncSetAttribute(loaded, limit, shared))
    if cluster > 8:
        leave = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        check(driver.cuFuncSetAttribute(loaded, leave, 1))
    return loaded


def make_current(device: int) -> None:
    """Make torch's context of GPU number `device` current in this thread: a new thread has none."""
    from cuda.bindings import driver

    wanted = _context(device)
    if int(check(driver.cuCtxGetCurrent())) != int(wanted):
        check(driver.cuCtxSetCurrent(wanted))


@functools.cache
def _context(device: int) -> Any:
    """Return the primary context of a GPU, which is torch's; it is kept to the end of the process."""
    from cuda.bindings import driver

    torch.cuda.init()
    return check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(device))))


class Arguments:
    """Kernel arguments, packed as the driver wants them; must outlive the launch call."""

    def __init__(self, *values: Tensor | float | None) -> None:
        """Pack tensors and None as addresses, integers as 32-bit words, floats as float32.

        Raises ValueError for an integer that does not fit.
        """
        self.values = [_packed(value) for value in values]
        self.devices = {value.get_device() for value in values if isinstance(value, Tensor)}
        self.addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, self.values))

    @property
    def pointer(self) -> int:
        """The address of the list of addresses."""
        return ctypes.addressof(self.addresses)


def _packed(value: Tensor | float | None) -> Any:
    if isinstance(value, float):
        return ctypes.c_float(value)
    if isinstance(value, int):
        if not 0 <= value < 2**32:
            raise ValueError(f"a kernel argument of 32 bits cannot hold {value}")
        return ctypes.c_uint32(value)
    return ctypes.c_void_p(None if value is None else value.data_ptr())


def launch(
    kernel: Any, grid: tuple[int, int], block: int, shared: int, arguments: Arguments,
    cluster: int = 1,
) -> None:  # fmt: skip
    """Start a grid of (x, y) blocks on torch's current stream; clusters lie along x.

    Raises ValueError for a tensor that is not on torch's current GPU, before anything is started.
    """
    from cuda.bindings import driver

    device = torch.cuda.current_device()
    _check_devices(arguments.devices, device)
    make_current(device)
    stream = torch.cuda.current_stream().cuda_stream
    if cluster == 1:
        check(
            driver.cuLaunchKernel(
                kernel, *grid, 1, block, 1, 1, shared, stream, arguments.pointer, 0
            )
        )
        return
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = *grid, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
    config.sharedMemBytes, config.hStream = shared, stream
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    value = driver.CUlaunchAttributeValue()
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster, 1, 1
    attribute.value = value
    config.attrs, config.numAttrs = [attribute], 1
    check(driver.cuLaunchKernelEx(config, kernel, arguments.pointer, 0))


def _check_devices(found: set[int], device: int) -> None:
    """Raise ValueError unless all tensors are on GPU number `device`; a tensor of the CPU counts as -1."""
    for other in found - {device}:
        if other < 0:
            raise ValueError(f"a tensor is on the CPU: move it to cuda:{device}")
        raise ValueError(
            f"a tensor is on cuda:{other} and torch's current GPU is cuda:{device}: "
            f"move it, or launch inside torch.cuda.device({other})"
        )
