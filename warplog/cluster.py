"""A Ray cluster to measure on: joined or started, an artifact a task, a whole GPU each. Alone knows Ray.

The rule kept here: a task whose worker or node died begins again, said aloud and no more often than
ATTEMPTS; its record comes home as the task's result, so that it is whole or not there; and what was
started here is stopped here.
"""

import contextlib
import itertools
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from warplog import errand, parcel, placement
from warplog.fault import Fault
from warplog.host import Report, Say
from warplog.runner import Options, Outcome, Where
from warplog.source import Artifact

ATTEMPTS = 2
LOCAL = "local"
LAST_LINES = 12
AT_A_TIME = 256
POLL_SECONDS = 0.3
STOP_SECONDS = 5.0
PROBE_SECONDS = 5.0
SOCKET_PATH_AT_MOST = 40  # Ray puts some 65 characters after it, and a socket's path has 107

_FINAL = (
    exceptions.RayTaskError,
    exceptions.RuntimeEnvSetupError,
    exceptions.TaskUnschedulableError,
)
_WORDS = {
    exceptions.WorkerCrashedError: "its worker died",
    exceptions.NodeDiedError: "its node died",
    exceptions.OutOfMemoryError: "its node ran out of memory",
}


class Stopped(BaseException):
    """The command was asked to stop, so what is measured is of no use to anybody."""


@contextlib.contextmanager
def joined(address: str, devices: dict[str, str], device: str | None) -> Iterator["Cluster"]:
    """Join the cluster at `address`, or start one for as long as this lasts if it is ``local``.

    `devices` names the device of each artifact's entry; `device` stands in the place of them all.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="wl-", ignore_cleanup_errors=True)
        )
        stack.callback(ray.shutdown)
        _connect(address, folder)
        yield Cluster(devices, device)


class Cluster:
    """The GPUs of all nodes; Ray lets a task wait until one of the kind that it needs is free."""

    many = AT_A_TIME

    def __init__(self, devices: dict[str, str], device: str | None) -> None:
        self._devices, self._device = devices, device
        self.timed = self._place("").gpu
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        board = ray.remote(errand.Board)
        self._board = board.options(num_cpus=0, scheduling_strategy=here).remote()
        self._errand = ray.remote(errand.run)
        self._live: set[Any] = set()
        self._keys = itertools.count()
        self._stopped = False

    def reproduce(self, artifact: Artifact, options: Options, report: Report, say: Say) -> Outcome:
        """Measure one artifact on a node, again where its worker or its node died."""
        packed, reason = None, ""
        for attempt in range(1, ATTEMPTS + 1):
            place = self._place(artifact.slug)
            if packed and packed[0].gpu and not place.gpu:
                return Outcome(None, f"{reason}, and no GPU is left", started=False)
            packed = parcel.pack(artifact, options, gpu=place.gpu)
            if place.note and attempt == 1:
                say(f"note: {artifact.slug}: {place.note}")
            try:
                reply = self._reply(artifact, packed[0], place, report, say)
            except _FINAL as error:
                said = "\n".join(str(error).splitlines()[-LAST_LINES:])
                return Outcome(None, _first_line(error), said, started=False)
            except exceptions.RayError as error:
                self._check_going_on()
                reason = f"attempt {attempt} of {ATTEMPTS}: {_word(error)}"
                say(f"{artifact.slug}: {reason}" + ("; again" if attempt < ATTEMPTS else ""))
                continue
            return parcel.receive(artifact, *packed, reply, options.aside)
        return Outcome(None, reason, started=False)

    def stop(self) -> None:
        """Cancel every task, gently first, so that a worker ends its processes; then by force."""
        self._stopped = True
        live = list(self._live)
        for force in (False, True):
            for task in live:
                with contextlib.suppress(exceptions.RayError, ValueError):
                    ray.cancel(task, force=force)
            if live:
                _, live = ray.wait(live, num_returns=len(live), timeout=STOP_SECONDS)

    def _place(self, slug: str) -> placement.Place:
        wanted = self._device or self._devices.get(slug)
        return placement.place(ray.cluster_resources(), wanted, insists=self._device is not None)

    def _reply(
        self,
        artifact: Artifact,
        packed: parcel.Parcel,
        place: placement.Place,
        report: Report,
        say: Say,
    ) -> parcel.Reply:
        """Send the parcel, and a second time, with an environment of its own, to a node that lacks
        packages.
        """
        needs = placement.own_needs() + placement.requirements(artifact, gpu=place.gpu)
        content = msgspec.msgpack.encode(packed)
        how: dict[str, Any] = {"num_cpus": 1, "num_gpus": int(place.gpu), "max_retries": 0}
        if place.kind:
            how["accelerator_type"] = place.kind
        lacking, reply = self._result(how, needs, content, report)
        if lacking:
            say(
                f"{artifact.slug}: the node lacks {', '.join(lacking)}; installing it for this task"
            )
            how["runtime_env"] = {"pip": needs}
            lacking, reply = self._result(how, [], content, report)
        return msgspec.msgpack.decode(reply, type=parcel.Reply)

    def _result(
        self, how: dict[str, Any], needs: list[str], content: bytes, report: Report
    ) -> tuple[list[str], bytes]:
        """Run one task to its end, passing on what it says meanwhile."""
        self._check_going_on()
        key = str(next(self._keys))
        task = self._errand.options(**how).remote(needs, content, self._board, key)
        self._live.add(task)
        try:
            done: list[Any] = []
            while not done:
                done, _ = ray.wait([task], timeout=POLL_SECONDS)
                self._pass_on(key, report)
                self._check_going_on()
            lacking, reply = ray.get(task)
            return list(lacking), bytes(reply)
        finally:
            self._live.discard(task)

    def _pass_on(self, key: str, report: Report) -> None:
        """Report what was put on the board; one that died with its node costs the progress alone."""
        with contextlib.suppress(exceptions.RayError):
            for run, runs, workload in ray.get(self._board.take.remote(key), timeout=STOP_SECONDS):
                report(Where(run, runs, workload))

    def _check_going_on(self) -> None:
        if self._stopped:
            raise Stopped


def _connect(address: str, folder: str) -> None:
    """Join or start a cluster that gets this very Warplog; raise Fault where that cannot be done.

    Ray takes over SIGTERM when it starts, and this command keeps it. Its statistics are not sent, and
    of packages that cannot be installed it hears once, not three times.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RUNTIME_ENV_RETRY_TIMES", "1")
    more: dict[str, Any] = {}
    if address == LOCAL:
        more = {"include_dashboard": False}
        more |= {"_temp_dir": folder} if len(folder) <= SOCKET_PATH_AT_MOST else {}
    _probe(address)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address,
            runtime_env={"py_modules": [str(Path(__file__).parent)]},
            log_to_driver=False,
            logging_level="ERROR",
            **more,
        )
    except (ConnectionError, RuntimeError, ValueError, ImportError, TimeoutError) as error:
        raise _unreachable(address, _first_line(error)) from None
    finally:
        signal.signal(signal.SIGTERM, handler)


def _probe(address: str) -> None:
    """Raise Fault where nothing listens at a ``host:port``; Ray itself would ask for a minute."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), PROBE_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from None


def _unreachable(address: str, why: str) -> Fault:
    remedy = "see `ray status` on a node, and use the cluster's own versions of Ray and Python"
    return Fault("--on", f"cannot join a Ray cluster at {address} ({why})", remedy)


def _word(error: exceptions.RayError) -> str:
    """Say in a few words what became of a task; Ray's own words fill a screen."""
    known = (words for kind, words in _WORDS.items() if isinstance(error, kind))
    return next(known, f"it was lost ({type(error).__name__})")


def _first_line(error: Exception) -> str:
    """Return the line of Ray's message that says the most: the last of a traceback, the error of pip,
    else the first.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, exceptions.RuntimeEnvSetupError):
        errors = [line for line in lines if line.startswith("ERROR:")]
        return f"its packages cannot be installed there: {(errors or lines or ['?'])[0]}"
    chosen = lines[-1 if isinstance(error, exceptions.RayTaskError) else 0] if lines else ""
    return chosen or type(error).__name__
