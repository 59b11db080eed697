"""The parameters of one kernel as bytes: which there are, where they lie, and what is in them.

A kernel launch, a graph node and an audit all read the same buffer, and one call of `struct` writes
all of it: there is no way to write some parameters of a launch and not the others.
"""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

SLOT = 8
POISON = 0xA5
HIDDEN = ("global_scratch", "profile_scratch")  # Triton 3.6 appends these two pointers itself
_CODES = {
    "fp32": ("f4x", 4),
    "i32": ("i4x", 4),
    "u32": ("I4x", 4),
    "i64": ("q", 8),
    "u64": ("Q", 8),
}


@dataclass(frozen=True)
class Layout:
    """Names and Triton types ("*bf16", "fp32", ...) of all parameters of a kernel, in its order.

    Each has a slot of eight bytes in our buffer; the driver learns where from a list of addresses.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, signature: dict[str, str]) -> "Layout":
        """Make the layout of a Triton signature: constants are no parameters, two hidden ones are.

        Raises ValueError for a type that has no slot.
        """
        taken = {name: type_ for name, type_ in signature.items() if type_ != "constexpr"}
        for name, type_ in taken.items():
            if not type_.startswith("*") and type_ not in _CODES:
                raise ValueError(f"{name} is {type_}: a slot takes a pointer, {', '.join(_CODES)}")
        hidden = dict.fromkeys(HIDDEN, "*i8")
        return cls((*taken, *hidden), (*taken.values(), *hidden.values()))

    @cached_property
    def form(self) -> struct.Struct:
        """How all values are written at once."""
        return struct.Struct("=" + "".join(_code(type_)[0] for type_ in self.types))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each parameter that the kernel reads."""
        return tuple(_code(type_)[1] for type_ in self.types)

    def bytes_of(self, values: Sequence[int | float]) -> list[bytes]:
        """Return the bytes of each value, packed one by one: what an audit expects."""
        whole = self.form.pack(*values)
        return [whole[SLOT * place : SLOT * place + size] for place, size in enumerate(self.sizes)]


def _code(type_: str) -> tuple[str, int]:
    return ("Q", 8) if type_.startswith("*") else _CODES[type_]


class Arguments:
    """One buffer for the values of a layout; `pointer` is what launches and node descriptions take.

    It must outlive every description that holds `pointer`.
    """

    def __init__(self, layout: Layout) -> None:
        """Allocate the buffer, poisoned."""
        self.layout = layout
        self.buffer = ctypes.create_string_buffer(SLOT * len(layout.names))
        base = ctypes.addressof(self.buffer)
        places = [base + SLOT * place for place in range(len(layout.names))]
        self.addresses = (ctypes.c_void_p * len(places))(*places)
        self.pointer = ctypes.addressof(self.addresses)
        self.pack = partial(layout.form.pack_into, self.buffer, 0)
        self.poison()

    def write(self, values: Sequence[int | float]) -> None:
        """Write every parameter; struct.error if there are more or fewer than the kernel has."""
        self.pack(*values)

    def poison(self) -> None:
        """Fill the buffer so that what is not written afterwards is no value of an earlier call."""
        ctypes.memset(self.buffer, POISON, len(self.buffer))


def read(pointer: int, sizes: Sequence[int]) -> list[bytes]:
    """Return the bytes that a list of addresses, such as a node's `kernelParams`, points to."""
    addresses = (ctypes.c_void_p * len(sizes)).from_address(pointer)
    return [ctypes.string_at(address, size) for address, size in zip(addresses, sizes, strict=True)]


# region: audit
def differences(layout: Layout, found: Sequence[bytes], values: Sequence[int | float]) -> list[str]:
    """Name the parameters whose bytes are not those of `values`."""
    expected = layout.bytes_of(values)
    return [
        name
        for name, ours, theirs in zip(layout.names, found, expected, strict=True)
        if ours != theirs
    ]


# endregion


def check_layout(driver: Any, function: Any, layout: Layout) -> None:
    """Raise ValueError unless the driver knows as many parameters of `function`, of these sizes."""
    found = []
    for place in range(len(layout.names) + 1):
        status, _, size = driver.cuFuncGetParamInfo(function, place)
        if int(status) != 0:
            break
        found.append(size)
    if tuple(found) != layout.sizes:
        raise ValueError(
            f"the kernel takes parameters of {found} bytes, not {list(layout.sizes)} "
            f"for {', '.join(layout.names)}: use the signature that it was compiled for"
        )
