"""Reads from PTX what each tensor is fetched by: from an address back to the pointer that it came from.

PTX as Triton writes it keeps a register to one meaning, or to a few where a loop hands it on. So the
registers behind an address, followed through arithmetic and never through a load, lead to the kernel's
parameter that the address was made of. An address that leads to none or to two is an error.
"""

import re
from collections import defaultdict
from typing import NamedTuple

_LINE = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s+(.*?);", re.MULTILINE)
_REGISTER = re.compile(r"%[a-z]+\d+\b")
_PARAMETER = re.compile(r"_param_(\d+)\]?")
_ADDRESS = re.compile(r"\[\s*(%[a-z]+\d+)")
_SIZE = re.compile(r"\],\s*(0x[0-9a-f]+|\d+)\s*(?:,|$)")
_VECTOR = re.compile(r"\.v(\d)\b")
_BITS = re.compile(r"\.[a-z](\d+)$")
_LABEL = re.compile(r"^(\$\w+):", re.MULTILINE)
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)\s*;")
_MEMORY = ("ld.global", "ld.shared", "ldmatrix", "mma", "atom", "shfl", "bar")
WAIT = "cp.async.wait_group"


class Fetch(NamedTuple):
    """One instruction that fetches from global memory: `parameter` counts the kernel's from 0,
    `bytes` is what one thread fetches, `asynchronous` whether it goes to shared memory by itself.
    """

    parameter: int
    bytes: int
    asynchronous: bool


def fetches(text: str) -> list[Fetch]:
    """Return each instruction of PTX that reads global memory, in the order of the text.

    Raises ValueError for an address that does not lead to one parameter.
    """
    sources = _sources(text)
    found = []
    for opcode, operands in _LINE.findall(text):
        if opcode.startswith("cp.async.c"):
            _, origin = _ADDRESS.findall(operands)
            size = int(_SIZE.findall(operands)[0], 0)
            found.append(Fetch(_parameter(origin, sources), size, asynchronous=True))
        elif opcode.startswith("ld.global"):
            address = _ADDRESS.findall(operands)[0]
            found.append(Fetch(_parameter(address, sources), _width(opcode), asynchronous=False))
    return found


# region: origin
def _sources(text: str) -> dict[str, set[str]]:
    """Return for each register those that it was made of; a parameter is its number, as text."""
    found: dict[str, set[str]] = defaultdict(set)
    for opcode, operands in _LINE.findall(text):
        registers = _REGISTER.findall(operands)
        if not registers or opcode.startswith(("st.", "cp.", *_MEMORY)):
            continue
        if opcode.startswith("ld.param"):
            found[registers[0]].add(_PARAMETER.findall(operands)[0])
        else:
            found[registers[0]].update(registers[1:])
    return found


def _parameter(address: str, sources: dict[str, set[str]]) -> int:
    """Return the number of the parameter that `address` was made of."""
    seen: set[str] = set()
    pending, found = [address], set()
    while pending:
        register = pending.pop()
        if register.isdigit():
            found.add(int(register))
        elif register not in seen:
            seen.add(register)
            pending += sources.get(register, ())
    if len(found) != 1:
        raise ValueError(f"{address} leads to parameters {sorted(found)}: one was expected")
    return found.pop()


# endregion


def _width(opcode: str) -> int:
    """Return the bytes that one thread loads: ``ld.global.v4.b32`` is 16."""
    lanes = _VECTOR.findall(opcode) or ["1"]
    return int(lanes[0]) * int(_BITS.findall(opcode)[0]) // 8


def wait_depth(text: str) -> int:
    """Return how many groups of copies a round of the loop leaves under way when it starts to compute,
    or 0 where it waits for all of them or has none.

    The loop is what stands between a label and a later branch back to it.
    """
    ends = {
        branch[1]: branch.start() for branch in _BRANCH.finditer(text)
    }  # the last one to each label
    depth = 0
    for label in _LABEL.finditer(text):
        inside = text[label.start() : ends.get(label[1], 0)]
        depth = max([depth, *map(int, re.findall(rf"{WAIT}\s+(\d+)", inside))])
    return depth
