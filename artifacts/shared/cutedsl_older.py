"""The version of CuTe DSL of March 2026, beside today's: in a folder of its own, for processes of their own.

`python cutedsl_older.py` installs it there. `WARPLOG_CUTEDSL_OLDER` names another folder.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSION = "4.4.2"
PACKAGES = (f"nvidia-cutlass-dsl=={VERSION}", f"nvidia-cutlass-dsl-libs-base=={VERSION}")


def folder() -> Path:
    """Return where it is, or would be."""
    named = os.environ.get("WARPLOG_CUTEDSL_OLDER")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(named) if named else Path(home) / "warplog" / f"cutedsl-{VERSION}"


def modules() -> Path | None:
    """Return the folder to import it from, or None where it is not installed."""
    found = folder() / "nvidia_cutlass_dsl" / "python_packages"
    return found if (found / "cutlass").is_dir() else None


def environment(first: Path | None) -> dict[str, str]:
    """Return the variables of a process that imports from `first`, and then from where this one does."""
    paths = [str(first)] if first else []
    paths += [str(folder())] if first else []
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)]),
        "WARPLOG_CUTEDSL_FIRST": str(first or ""),
    }


@contextlib.contextmanager
def driver_untouched() -> Iterator[None]:
    """Within it CuTe DSL can be imported by a process that forks others, which use the GPU.

    The version of March 2026 initialises the driver to learn what GPU there is, even where
    CUTE_DSL_ARCH says it, and in a fork of a process that has done so CUDA does not work.
    """
    try:
        from cuda.bindings import driver
    except ImportError:
        yield
        return
    initialise = driver.cuInit
    driver.cuInit = lambda _flags: (driver.CUresult.CUDA_ERROR_NOT_INITIALIZED,)
    try:
        yield
    finally:
        driver.cuInit = initialise


if __name__ == "__main__":
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--upgrade", "--target"]
    sys.exit(subprocess.run([*pip, str(folder()), *PACKAGES], check=False).returncode)
