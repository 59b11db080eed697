"""Finds the line of a value in YAML or JSON text, so that an error can say where to look.

The rule kept here: the text is parsed for positions only after something was found wrong,
so that a good file costs one parse. JSON is read as the YAML flow style that it is.
"""

import re
from functools import lru_cache

import yaml

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.|'[^']*')\]")


def steps_of(path: str) -> list[str]:
    """Split a validation path such as ``$.claims[...].at_least`` into its steps, without the root."""
    found = [(name or index).strip("'") for name, index in _STEP.findall(path)]
    return [step for step in found if step != "$"]


def line_of(text: bytes | str, path: str | list[str], first: int = 1) -> int:
    """Return the line of the value at `path`, or of its nearest parent that exists.

    `first` is the line number of the text's first line. A step ``...`` (an unnamed member) stops
    the walk at its parent.
    """
    steps = steps_of(path) if isinstance(path, str) else path
    node = _composed(text)
    line = node.start_mark.line if node is not None else 0
    for step in steps:
        child = _child(node, step)
        if child is None:
            break
        line, node = child
    return first + line


def line_of_repeated(text: bytes | str, key: str) -> int:
    """Return the line of the first `key` that a mapping of `text` gives for the second time, or 1."""
    pending, lines = [_composed(text)], []
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.MappingNode):
            found = [one.start_mark.line for one, _ in node.value if one.value == key]
            lines += found[1:]
            pending += [value for _, value in node.value]
    return 1 + min(lines, default=0)


@lru_cache(maxsize=4)
def _composed(text: bytes | str) -> yaml.Node | None:
    """Return the nodes of `text` with their positions; None where it cannot be read.

    Kept, because a text with one fault often has many.
    """
    try:
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _child(node: yaml.Node | None, step: str) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of one step below `node`, or None where there is none."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        value = node.value[int(step)]
        return value.start_mark.line, value
    return None
