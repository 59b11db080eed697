"""What an artifact's scripts say without being run: faults of their grammar, and the words they are made of.

The rule kept here: nothing of an artifact is imported or executed, and what cannot be read is a fault with
its line.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warplog.fault import Fault
from warplog.record import Scalar
from warplog.source import Artifact

OWN = ("kernel", "reference")
_LARGEST = 2**64
_FOLDED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: lambda one, other: one << min(other, 64),
    ast.Pow: lambda one, other: one ** min(other, 64) if abs(one) <= _LARGEST else None,
}


def script_faults(artifact: Artifact, files: list[Path]) -> Iterator[Fault]:
    """Yield a fault for each of `files` that Python cannot read, and for an own script that is imported and
    is not there.
    """
    for path in files:
        if path.suffix == ".py":
            place = f"artifacts/{artifact.slug}/{path.relative_to(artifact.folder).as_posix()}"
            try:
                tree = parsed(path.read_bytes())
            except (SyntaxError, ValueError) as error:
                yield _unreadable(place, error)
            except OSError:  # its digest tells of it
                continue
            else:
                yield from _missing(artifact, tree, place)


def _unreadable(place: str, error: SyntaxError | ValueError) -> Fault:
    line = getattr(error, "lineno", None)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    where = f"{place}:{line}" if line else place
    return Fault(where, f"is not Python ({said})", "mend it: nothing of the artifact can run")


def _missing(artifact: Artifact, tree: ast.AST, place: str) -> Iterator[Fault]:
    """Yield a fault for each import of `kernel` or `reference` where the artifact has no such file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else []
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        for name in names:
            if name in OWN and not any(artifact.folder.glob(f"{name}.*")):
                line = getattr(node, "lineno", 1)
                problem = f"imports {name}, and there is no {name}.py"
                yield Fault(f"{place}:{line}", problem, add_script(artifact.slug, name))


def add_script(slug: str, name: str) -> str:
    """Return what to do about an import of a script of `OWN` that the artifact lacks."""
    return f"add artifacts/{slug}/{name}.py, or import what is there"


def parsed(source: str | bytes) -> ast.Module:
    """Return the tree of a script; raises SyntaxError or ValueError for what is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def keywords(tree: ast.AST) -> set[str]:
    """Return what a script could call a size: the keywords of its calls, and its texts."""
    found = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    return found | {each for each in constants(tree) if isinstance(each, str)}


def constants(tree: ast.AST) -> set[Scalar]:
    """Return the numbers and texts that a script spells, also as a sum, product or power of numbers."""
    found: set[Scalar] = set()
    for node in ast.walk(tree):
        value = _value(node)
        if isinstance(value, int | float | str):
            found.add(value)
    return found


def _value(node: ast.AST) -> Any:
    """Return the value of a constant, or of arithmetic with constants; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _FOLDED:
        sides = _value(node.left), _value(node.right)
        if all(isinstance(side, int | float) for side in sides):
            try:
                return _FOLDED[type(node.op)](*sides)
            except (ArithmeticError, TypeError, ValueError):
                return None
    return None
