"""Index lists from a file saved with torch or numpy, or one line that says what to change.

The rule kept here: nothing in the file is run. torch loads weights only, numpy no pickled objects.
"""

import math
import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

TORCH, NUMPY = (".pt", ".pth"), (".npy", ".npz")
PLACES_AT_MOST = 2**28  # two GiB as int64, and several times that while the report is made
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


class Unusable(Exception):
    """What the user can mend: the message names the place, the value and the remedy."""


def read_indices(path: Path, name: str | None = None) -> Tensor:
    """Return the lists in a file: int64 [tokens, places], -1 is padding and all else a row.

    `name` picks one of several tensors. Raises Unusable for whatever is no such table.
    """
    found = _only(_content(path), path, name)
    if isinstance(found, np.ndarray):
        if found.dtype.kind not in "iu" or found.dtype.name in ("uint16", "uint32", "uint64"):
            raise Unusable(f"{path}: holds {found.dtype}: save it as int32 or int64")
        _check_size(found.shape, str(path))
        found = torch.from_numpy(found.astype(np.int64))
    if not isinstance(found, Tensor):
        raise Unusable(f"{path}: holds a {type(found).__name__}: save the tensor alone")
    return checked(found, str(path))


def checked(indices: Tensor, where: str) -> Tensor:
    """Return the table as int64 on the host, or raise Unusable."""
    if indices.is_nested:
        remedy = "save torch.nested.to_padded_tensor(indices, -1)"
        raise Unusable(f"{where}: is a nested tensor of {indices.size(0)} lists: {remedy}")
    if indices.is_meta:
        shape = list(indices.shape)
        raise Unusable(
            f"{where}: has shape {shape} on device meta, without values: save the values"
        )
    if indices.layout is not torch.strided:
        raise Unusable(f"{where}: is {indices.layout}: save indices.to_dense()")
    if indices.dtype not in INTEGERS:
        dtype = str(indices.dtype).removeprefix("torch.")
        raise Unusable(f"{where}: holds {dtype}: save it as int32 or int64")
    shape = list(indices.shape)
    if indices.ndim != 2:
        remedy = "indices[None]" if indices.ndim == 1 else "indices.reshape(-1, places)"
        raise Unusable(f"{where}: has shape {shape}, not [tokens, places]: save {remedy}")
    if not indices.numel():
        raise Unusable(f"{where}: has shape {shape}: save at least one token with one place")
    _check_size(shape, where)
    found = indices.cpu().long()
    if int(found.min()) < -1:
        token, place = (found < -1).nonzero()[0].tolist()
        value = int(found[token, place])
        problem = f"{where}: token {token}, place {place} holds {value}"
        raise Unusable(f"{problem}: a row is 0 or more; write -1 for padding")
    return found


def _check_size(shape: Sequence[int], where: str) -> None:
    """Raise Unusable for more places than a report can be made of; a view may have them in a small file."""
    if math.prod(shape) > PLACES_AT_MOST:
        problem = f"{where}: has shape {list(shape)}, {math.prod(shape)} places"
        raise Unusable(f"{problem}: save some of the tokens, {PLACES_AT_MOST} places or fewer")


def _content(path: Path) -> Any:
    """Load a file by its ending; what cannot be read is Unusable."""
    if path.suffix not in TORCH + NUMPY:
        known = ", ".join(TORCH + NUMPY)
        raise Unusable(f"{path}: ends in {path.suffix!r}: use a file that ends in {known}")
    if not path.is_file():
        problem = "is no file" if path.exists() else "does not exist"
        raise Unusable(f"{path}: {problem}: name a file saved with torch.save or numpy.save")
    try:
        if path.suffix in TORCH:
            return torch.load(path, map_location="cpu", weights_only=True)
        loaded = np.load(path, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {key: loaded[key] for key in loaded}
    except pickle.UnpicklingError:
        problem = f"{path}: holds more than tensors, or was not written by torch"
        raise Unusable(f"{problem}: save the tensor alone, torch.save(indices, FILE)") from None
    except MemoryError:
        problem = f"{path}: claims more memory than there is, in {path.stat().st_size} bytes"
        raise Unusable(f"{problem}: save the integers anew, or fewer tokens") from None
    except (EOFError, KeyError, OSError, RuntimeError, ValueError, zipfile.BadZipFile):
        writer = "torch.save" if path.suffix in TORCH else "numpy.save"
        problem = f"{path}: was not written by {writer}, holds objects, or is cut short"
        raise Unusable(f"{problem}: save the integers alone") from None


def _only(content: Any, path: Path, name: str | None) -> Any:
    """Pick the tensor called `name`, or the only one there is."""
    if not isinstance(content, dict):
        if name is not None:
            raise Unusable(f"{path}: holds one tensor without a name: leave out --name {name}")
        return content
    names = ", ".join(map(str, content)) or "nothing"
    if name is None and len(content) == 1:
        return next(iter(content.values()))
    if name not in content:
        problem = f"has no {name!r}" if name else "holds several tensors"
        raise Unusable(f"{path}: {problem}: choose one with --name, of {names}")
    return content[name]
