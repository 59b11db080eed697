"""One child process: started in its own session, heard while it runs, ended with all that it started.

The rule kept here: however a process ends, its last words and its whole events are kept, and nothing
that it started lives on, not even where this command is killed.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warplog import warden
from warplog.record import Workload

LAST_LINES = 40
LAST_BYTES = 100_000
POLL_SECONDS = 0.05
NO_ROOM = 74  # EX_IOERR of sysexits.h: a process could not write its events

_LIVE: set["Child"] = set()


@dataclass(frozen=True)
class Ended:
    """How one process ended: its events, and the reason where it did not end well."""

    events: list[dict[str, Any]]
    reason: str | None = None
    output: str = ""

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [event for event in self.events if event.get("event") == kind]

    @property
    def measurements(self) -> list[dict[str, Any]]:
        """What it measured, in order."""
        return [event["measurement"] for event in self.of("measurement")]


class Child:
    """A running process that writes its events to a file."""

    def __init__(
        self, program: list[str], events: Path, scratch: Path, variables: dict[str, str]
    ) -> None:
        """Start `program` in the folder `scratch`; its standard input stays open while we live."""
        self._events = events
        self._heard: list[dict[str, Any]] = []
        self._offset = 0
        self._output = scratch / "output"
        self._mark = uuid.uuid4().hex
        events.touch()
        with self._output.open("wb") as output, contextlib.ExitStack() as on_fault:
            self._warden = _warden(self._mark)
            on_fault.callback(_dismiss, self._warden)
            self._process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env=variables | {warden.MARK: self._mark},
                start_new_session=True,
            )
            on_fault.pop_all()
        _LIVE.add(self)

    def wait(self, limit: float, report: Callable[[Workload], None]) -> Ended:
        """Wait for the end or for `limit` seconds, and say how it ended."""
        deadline = time.monotonic() + limit
        hung = False
        try:
            while self._process.poll() is None and not hung:
                self._hear(report)
                time.sleep(POLL_SECONDS)
                hung = time.monotonic() > deadline and self._process.poll() is None
        finally:
            self.end()
        self._hear(report)
        reason = f"did not end within {limit:.0f} s" if hung else self._reason()
        return Ended(self._heard, reason, self._last_output())

    def end(self) -> None:
        """End the process and whatever it started, sessions of their own included."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        warden.end_marked(self._mark)
        if self._process.stdin:
            self._process.stdin.close()
        _dismiss(self._warden)
        _LIVE.discard(self)

    def _hear(self, report: Callable[[Workload], None]) -> None:
        """Read the whole lines that are new; a last line cut short is left for later."""
        with self._events.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in filter(None, whole.split(b"\n")):
            event = _event(line)
            self._heard.append(event)
            if event["event"] == "workload":
                report(event["workload"])

    def _reason(self) -> str | None:
        status = self._process.returncode
        faults = [event["reason"] for event in self._heard if event["event"] in ("load", "fault")]
        if faults:
            return str(faults[-1])
        if status == NO_ROOM:
            return "could not write down what it measured: is the disk full?"
        if status < 0:
            known = {each.value: each.name for each in signal.Signals}
            name = known.get(-status, f"signal {-status}")
            hint = " (often: the host ran out of memory)" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}"
        if status or not any(event["event"] == "done" for event in self._heard):
            return f"ended with status {status} before the script was done"
        return None

    def _last_output(self) -> str:
        """Return the last lines that the process wrote, whatever bytes they are."""
        with self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - LAST_BYTES))
            text = file.read().decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-LAST_LINES:])


def end_all() -> None:
    """End every child that runs: this command was asked to stop."""
    for child in list(_LIVE):
        child.end()


def _event(line: bytes) -> dict[str, Any]:
    """Return the event on a line; a line that is none counts as a fault of the script."""
    try:
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            return event
    except ValueError:
        pass
    return {"event": "fault", "reason": "something else than the harness wrote into its events"}


def _warden(mark: str) -> subprocess.Popen[bytes]:
    """Start what ends the processes that bear `mark` once we are no more."""
    program = [sys.executable, "-I", "-S", warden.__file__, mark]
    return subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True)


def _dismiss(one: subprocess.Popen[bytes]) -> None:
    """Let a warden go: nothing is left for it to end."""
    if one.stdin:
        with contextlib.suppress(OSError, ValueError):  # it is gone, or was let go already
            os.write(one.stdin.fileno(), b".")
        one.stdin.close()
    one.wait()
