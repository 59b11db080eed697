"""Names where a measurement was made: device, driver, packages, commit, clocks, variables.

The rule kept here: everything that can change a number is named, and nothing that names a person, a
host or a path ever is. What cannot be read is absent, never guessed.
"""

import contextlib
import getpass
import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pynvml
import torch

from warplog.record import Scalar

VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TRITON_DEFAULT_FP_FUSION",
    "TRITON_INTERPRET",
)
PACKAGES = (
    "torch",
    "triton",
    "numpy",
    "nvidia-cublas",
    "nvidia-cuda-nvrtc",
    "nvidia-cudnn-cu13",
)
_PLAIN_VALUE = re.compile(r"[\w.,:=+-]{0,60}\Z")
_PATH = re.compile(r"(?<![\w.…])(?:~|[A-Za-z]:)?[\\/](?:[^\s\\/'\"<>|:]+[\\/])+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|[\w.+-]+@[\w-]+\.[\w.-]+")
_COMMON_NAMES = {"root", "user", "home", "localhost", ""}
SHORTEST_NAME = 3
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")

_SLOWED = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "thermal slowdown",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hardware thermal slowdown",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power brake",
}
_OWN_DOING = {"power cap"}


def device() -> torch.device:
    """Return the GPU that this process measures on, or the CPU where there is none."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def slug(where: torch.device) -> str:
    """Return the device's name as a folder: ``nvidia-h200``; ``cpu`` without a GPU."""
    if where.type != "cuda":
        return "cpu"
    name = torch.cuda.get_device_name(where).lower()
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def gpu(where: torch.device) -> dict[str, Scalar] | None:
    """Return the GPU's facts: name, compute capability, multiprocessors, bytes of memory and L2,
    and the bandwidth in bytes per second that its memory's pins allow.
    """
    if where.type != "cuda":
        return None
    facts = torch.cuda.get_device_properties(where)
    found: dict[str, Scalar] = {
        "name": facts.name,
        "compute_capability": f"{facts.major}.{facts.minor}",
        "multiprocessors": facts.multi_processor_count,
        "memory_bytes": facts.total_memory,
        "l2_bytes": facts.L2_cache_size,
    }
    return {**found, **_limits(where)}


def _handle(where: torch.device) -> Any:
    """Return NVML's handle of the torch device `where`, or raise NVMLError."""
    pynvml.nvmlInit()
    uuid = str(torch.cuda.get_device_properties(where).uuid)
    return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())


def pin_bandwidth(where: torch.device) -> float | None:
    """Return bytes per second at the memory's pins: bus width times twice the highest memory clock
    (double data rate, as NVML counts it). No kernel can exceed it. None where NVML does not say.
    """
    if where.type != "cuda":
        return None
    try:
        handle = _handle(where)
        bits = pynvml.nvmlDeviceGetMemoryBusWidth(handle)
        megahertz = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)
    except pynvml.NVMLError:
        return None
    return float(bits / 8 * megahertz * 1e6 * 2)


def _limits(where: torch.device) -> dict[str, Scalar]:
    """Return what NVML says of the card's limits: bytes a second at its pins, watts, and whether
    its memory corrects errors, which costs bandwidth on some cards; what it does not say is absent.
    """
    found: dict[str, Scalar] = {}
    pins = pin_bandwidth(where)
    if pins is not None:
        found["pin_bandwidth"] = pins
    with contextlib.suppress(pynvml.NVMLError):
        handle = _handle(where)
        found["watts_limit"] = pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000
        found["ecc"] = "on" if pynvml.nvmlDeviceGetEccMode(handle)[0] else "off"
    return found


def busiest(readings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the range of the clock readings taken while the GPU worked; empty without any."""
    found: dict[str, Any] = {}
    for name in ("sm_mhz", "memory_mhz", "celsius", "watts"):
        values = [reading[name] for reading in readings if name in reading]
        if values:
            found |= {f"{name}_least": min(values), f"{name}_most": max(values)}
    if found:
        found["slowed"] = sorted({why for each in readings for why in each.get("slowed", [])})
        found["others"] = max(reading.get("others", 0) for reading in readings)
    return found


def driver() -> str | None:
    """Return the driver's version, or None without one."""
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def clocks(where: torch.device) -> dict[str, Any]:
    """Read the GPU's clocks (MHz), temperature (degrees Celsius), power (W), why it is slowed, and
    how many other processes use it. Empty without a GPU.
    """
    if where.type != "cuda":
        return {}
    try:
        handle = _handle(where)
        mask = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        users = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return {
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "celsius": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "watts": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "slowed": [name for bit, name in _SLOWED.items() if mask & bit],
            "others": max(0, len(users) - 1),
        }
    except pynvml.NVMLError as error:
        return {"unreadable": type(error).__name__}


def disturbances(readings: list[dict[str, Any]]) -> list[str]:
    """Say in words what disturbed a process, from its clock readings before and after.

    A power cap is the kernel's own doing, so it stays in the readings and is not called a disturbance.
    """
    slowed = {name for reading in readings for name in reading.get("slowed", [])} - _OWN_DOING
    others = max((reading.get("others", 0) for reading in readings), default=0)
    return sorted(slowed) + ([f"{others} other process(es) on the GPU"] if others else [])


def packages(folder: Path | None = None) -> dict[str, str]:
    """Return the installed versions of torch, triton, numpy and CUDA, and of each requirement that a
    file requirements.txt or requirements-gpu.txt in `folder` names.
    """
    names = list(PACKAGES)
    for path in sorted(folder.glob("requirements*.txt")) if folder else []:
        for line in path.read_text("utf-8").splitlines():
            found = _REQUIREMENT.match(line.partition("#")[0])
            if found:
                names.append(found.group(1))
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    return versions


def variables() -> dict[str, str]:
    """Return those environment variables that change generated code or timing, if they are set.

    A value that could hold a path or a secret is not shown.
    """
    found = {}
    for name in VARIABLES:
        value = os.environ.get(name)
        if value is not None:
            found[name] = value if _PLAIN_VALUE.match(value) else "(set, not shown)"
    return found


def system() -> str:
    """Return the operating system's kind and the processor's: ``Linux x86_64``."""
    return f"{platform.system()} {platform.machine()}"


def about(where: torch.device, folder: Path | None) -> dict[str, Any]:
    """Return all that is named of this process's environment, clocks aside; the artifact is in `folder`."""
    return {
        "device": slug(where),
        "gpu": gpu(where),
        "driver": driver() if where.type == "cuda" else None,
        "python": sys.version.split()[0],
        "system": system(),
        "packages": packages(folder),
        "variables": variables(),
    }


def scrub(text: str) -> str:
    """Return `text` without what could name a person, a host or a place on this machine: of an
    absolute path only the last part is left, and the user's and the host's names are not shown.
    """
    shown = text.encode("utf-8", "backslashreplace").decode()
    shown = _ADDRESS.sub("(address)", _PATH.sub("…/", shown))
    private: set[str] = set()
    for name in (getpass.getuser, platform.node, lambda: Path.home().name):
        with contextlib.suppress(KeyError, OSError, RuntimeError, ImportError):
            private.add(name())
    private -= _COMMON_NAMES
    for word in sorted(private, key=len, reverse=True):
        if len(word) >= SHORTEST_NAME:
            shown = re.sub(rf"\b{re.escape(word)}\b", "(name)", shown)
    return shown
