"""CUDA C++ at run time: NVRTC builds a kernel, the driver loads and starts it on torch's stream."""

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HERE = Path(__file__).parent


@functools.cache
def compile_source(name: str, arch: str = "sm_90", target: str = "ptx", **defines: str) -> bytes:
    """Compile `name`.cu beside this file with NVRTC, which needs no GPU and no driver.

    `target` is "ptx" or "cubin"; `defines` are the macros. Raises RuntimeError with the compiler's
    log if it does not compile.
    """
    from cuda.bindings import nvrtc

    source = (HERE / f"{name}.cu").read_bytes()
    program = check(nvrtc.nvrtcCreateProgram(source, f"{name}.cu".encode(), 0, [], []))
    options = [f"--gpu-architecture={arch}", "--std=c++17", f"--include-path={HERE}"]
    options += [f"--define-macro={macro}={value}" for macro, value in defines.items()]
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), [option.encode() for option in options]
    )
    if int(status[0]) != 0:
        log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program)))
        check(nvrtc.nvrtcGetProgramLog(program, log))
        message = f"{name}.cu: {status[0]!r}\n{log.decode()}"
        raise RuntimeError(message)
    size, read = {
        "ptx": (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
        "cubin": (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
    }[target]
    code = bytearray(check(size(program)))
    check(read(program, code))
    check(nvrtc.nvrtcDestroyProgram(program))
    return bytes(code)


def check(result: tuple[Any, ...]) -> Any:
    """Take the value out of a driver call's result; raises if the call failed."""
    code, *values = result
    if int(code) != 0:
        message = f"CUDA driver: {code!r}"
        raise RuntimeError(message)
    return values[0] if values else None


@functools.cache
def function(name: str, entry: str, shared: int = 0, **defines: str) -> Any:
    """Build and load the kernel `entry` of `name`.cu for the current GPU, once a process."""
    from cuda.bindings import driver

    major, minor = torch.cuda.get_device_capability()
    torch.cuda.current_stream().synchronize()  # makes torch's context current
    code = compile_source(name, f"sm_{major}{minor}", "cubin", **defines)
    loaded = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(code)), entry.encode()))
    if shared > 48 * 1024:
        limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(driver.cuFuncSetAttribute(loaded, limit, shared))
    return loaded


class Arguments:
    """Kernel arguments, packed as the driver wants them; must outlive the launch call."""

    def __init__(self, *values: Tensor | int | None) -> None:
        """Pack tensors and None as addresses, and integers as 32-bit words."""
        self.values = [
            ctypes.c_uint32(value)
            if isinstance(value, int)
            else ctypes.c_void_p(None if value is None else value.data_ptr())
            for value in values
        ]
        self.addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, self.values))

    @property
    def pointer(self) -> int:
        """The address of the list of addresses."""
        return ctypes.addressof(self.addresses)


def launch(kernel: Any, grid: int, block: int, shared: int, arguments: Arguments) -> None:
    """Start a one-dimensional grid on torch's current stream."""
    from cuda.bindings import driver

    stream = torch.cuda.current_stream().cuda_stream
    check(
        driver.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, arguments.pointer, 0)
    )
