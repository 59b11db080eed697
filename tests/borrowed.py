"""An artifact's modules for a test: importable by their own names, and taken away afterwards."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Protocol

ARTIFACTS = Path(__file__).parents[1] / "artifacts"


class Import(Protocol):
    """Imports a module by its name."""

    def __call__(self, name: str) -> ModuleType: ...


@contextmanager
def modules_of(slug: str) -> Iterator[Import]:
    """Within it, what it gives imports the modules of artifacts/`slug`, and of artifacts/shared.

    Every artifact has a module called kernel, so those of another are set aside meanwhile.
    """
    folder = ARTIFACTS / slug
    names = [path.stem for path in folder.glob("*.py")]
    before = {name: sys.modules.pop(name, None) for name in names}
    paths = [str(folder), str(ARTIFACTS)]
    sys.path[:0] = paths
    try:
        yield importlib.import_module
    finally:
        for path in paths:
            sys.path.remove(path)
        for name in names:
            sys.modules.pop(name, None)
            if before[name] is not None:
                sys.modules[name] = before[name]
