"""What an artifact needs of a cluster: a kind of GPU, and packages.

The rule kept here: a device is called as records/ calls it (``nvidia-h200``), and Ray's own name for its
kind (``H200``) is found among those that the cluster has, never guessed. Pure, but for what is installed.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

from warplog.fault import Fault
from warplog.source import Artifact

_PREFIX = "accelerator_type:"
_FILES = ("requirements.txt", "requirements-gpu.txt")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


@dataclass(frozen=True)
class Place:
    """One whole GPU, of a `kind` that Ray names if it matters which; or a CPU. `note` says what is
    otherwise than the entry has it.
    """

    gpu: bool
    kind: str | None = None
    note: str = ""


def kinds(resources: Iterable[str]) -> list[str]:
    """Return the kinds of accelerator among the names of a cluster's resources."""
    return sorted(name.removeprefix(_PREFIX) for name in resources if name.startswith(_PREFIX))


def kind_of(device: str, known: list[str]) -> str | None:
    """Return Ray's name for the kind of `device` among those `known`: the longest whose words stand
    in it, one after the other (``A100`` in ``nvidia-a100-sxm4-80gb``); None if there is none.
    """
    words = f"-{device}-"
    fitting = [kind for kind in known if f"-{_slug(kind)}-" in words]
    return max(fitting, key=len, default=None)


def place(resources: dict[str, float], wanted: str | None, *, insists: bool = False) -> Place:
    """Return where to run an artifact whose entry tells of the device `wanted`: on one such GPU, where
    there is none on any GPU, and without GPUs on a CPU. Raises Fault where the caller `insists`.
    """
    has_gpus, known = resources.get("GPU", 0) >= 1, kinds(resources)
    kind = kind_of(wanted, known) if wanted and has_gpus else None
    if kind:
        return Place(gpu=True, kind=kind)
    if insists:
        has = ", ".join(known) if has_gpus else ""
        raise Fault("--device", f"the cluster has no {wanted}", f"it has: {has or 'no GPU'}")
    if has_gpus:
        return Place(gpu=True, note=f"the cluster has no {wanted}; any GPU" if wanted else "")
    return Place(gpu=False, note="the cluster has no GPU, so nothing is timed")


def requirements(artifact: Artifact, *, gpu: bool) -> list[str]:
    """Return the lines of the artifact's requirements; what is of use on a GPU alone only for a GPU."""
    lines: list[str] = []
    for name in _FILES if gpu else _FILES[:1]:
        path = artifact.folder / name
        if path.is_file():
            lines += [
                line.partition("#")[0].strip() for line in path.read_text("utf-8").split("\n")
            ]
    return sorted(set(filter(None, lines)))


def own_needs() -> list[str]:
    """Return what Warplog needs to measure; empty where it runs from a tree that nobody installed."""
    try:
        declared = metadata.requires("warplog") or []
    except metadata.PackageNotFoundError:
        return []
    found = [(line.partition(";")[0].strip(), _EXTRA.search(line)) for line in declared]
    return [line for line, extra in found if extra is None or extra[1] == "measure"]


def _slug(kind: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")
