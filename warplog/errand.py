"""What a worker of a cluster does: sees whether its node has what is needed, and fulfils a parcel.

The rule kept here: this module starts on a node that has Python and Ray and nothing else, so it says
what is missing before it imports anything that could be. Its children get the node's environment, not
what Ray put into it.
"""

import os
from importlib import metadata
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

_OF_RAY = "OMP_NUM_THREADS"  # Ray sets it to the CPUs of the task, and it changes what torch does


def missing(needs: list[str]) -> list[str]:
    """Return those of `needs` that the Python here does not meet; what is no plain requirement is
    left to pip.
    """
    return [line for line in needs if not _is_met(line)]


def _is_met(line: str) -> bool:
    try:
        need = Requirement(line)
        if need.marker is not None and not need.marker.evaluate():
            return True
        here = metadata.version(need.name)
    except (InvalidRequirement, metadata.PackageNotFoundError):
        return False
    return need.url is None and need.specifier.contains(here, prereleases=True)


def run(needs: list[str], parcel: bytes, board: Any, key: str) -> tuple[list[str], bytes]:
    """Fulfil `parcel` and return the reply to it, or, before anything is done, what is missing here.

    Each workload is put on the `board` under `key` as it starts.
    """
    lacking = missing(needs)
    if lacking:
        return lacking, b""
    import msgspec  # noqa: PLC0415 - now it is here

    from warplog.parcel import Parcel, fulfil  # noqa: PLC0415
    from warplog.runner import Where  # noqa: PLC0415

    def report(where: Where) -> None:
        board.hear.remote(key, (where.run, where.runs, where.workload))

    os.environ.pop(_OF_RAY, None)
    reply = fulfil(msgspec.msgpack.decode(parcel, type=Parcel), report)
    return [], msgspec.msgpack.encode(reply)


class Board:
    """Where workers put how far they are, until home takes it. It lives in the cluster, as an actor."""

    def __init__(self) -> None:
        self._said: dict[str, list[Any]] = {}

    def hear(self, key: str, said: Any) -> None:
        """Keep what was said under `key`."""
        self._said.setdefault(key, []).append(said)

    def take(self, key: str) -> list[Any]:
        """Return what was said under `key` since it was last asked for."""
        return self._said.pop(key, [])
