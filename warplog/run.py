"""What a reproduction script is handed: the device, the sizes, and the verbs compare, count, profile.

The rule kept here: the script says what is compared, and nothing about how: fresh inputs, checks, turns
and clocks are the harness's, the same for every subject.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from warplog import environment, profile
from warplog.case import Case, draw
from warplog.comparison import Comparison, Plan
from warplog.event import Events, Write, number, rows_of, workload_of
from warplog.measure import Subject, floor_seconds
from warplog.names import nearest
from warplog.record import SAMPLES_AT_MOST, Number
from warplog.timer import Timer

CHECKS = 3
UNSEEN = 2
_KEYWORDS = ("baseline", "exact", "tolerance", "traffic", "work", "cache", "samples", "time")
_ALIKE = 0.8  # `tile` and `time` are less alike, a word with one wrong letter more
T = TypeVar("T")


class Run:
    """One process's view of a reproduction. `seed` differs in every process."""

    def __init__(
        self,
        write: Write,
        *,
        seed: int = 0,
        timer: Timer | None = None,
        bandwidth: float | None = None,
        counting: profile.Counting | None = None,
        observe: Callable[[], None] = lambda: None,
        tiny: bool = False,
    ) -> None:
        """`write` takes each event; `timer` times calls (None: nothing is timed); `bandwidth` is
        the bytes per second that no call may exceed; `counting` is set in the extra process that
        runs under Nsight Compute; `observe` is called after each workload's last timed call, while
        the GPU is still warm from it; `tiny` asks for tiny sizes on a GPU too, as a sanitizer does.
        """
        self.device = environment.device()
        self.on_gpu = self.device.type == "cuda"
        self.seed = seed
        self._events = Events(write)
        self._timer = timer
        self._bandwidth = bandwidth
        self._counting = counting
        self._tiny = tiny
        self._observe = observe

    def sizes(self, full: Sequence[T], tiny: Sequence[T] | None = None) -> list[T]:
        """Return `full` on a GPU and `tiny` without one, or where `self.tiny` says so. Raises ValueError
        without tiny sizes, wherever it runs.
        """
        if tiny is None:
            raise ValueError("run.sizes has no tiny sizes; add some that take a second: tiny=[2]")
        if self.tiny and not self._counting:
            self._events.write({"event": "sizes", "full": rows_of(full), "tiny": rows_of(tiny)})
        return list(tiny if self.tiny else full)

    @property
    def tiny(self) -> bool:
        """True where sizes are tiny and no time is kept: without a GPU, and under a sanitizer on one."""
        return self._tiny or not self.on_gpu

    @property
    def counting(self) -> bool:
        """True in the one extra process under Nsight Compute, which keeps the counters of `profile` and
        nothing else: a script may skip there what it times or counts by itself.
        """
        return self._counting is not None

    def compare(
        self,
        subjects: dict[str, Subject],
        reference: Subject,
        inputs: Callable[[int], Any],
        *,
        baseline: str | None = None,
        exact: bool = False,
        tolerance: float = 1e-2,
        traffic: Number | dict[str, Number] | None = None,
        work: Number | dict[str, Number] | None = None,
        cache: str = "cold",
        samples: int = 25,
        time: bool = True,
        **workload: Any,
    ) -> None:
        """Check each subject against `reference` on fresh inputs, then time those that are right.

        `subjects` maps names to callables of `*inputs(seed)`; they return a tensor or a tuple of
        tensors of the reference's shapes and on its device. Inputs are tensors whose shapes and
        dtypes do not depend on the seed, or constants. `exact` asks for equal bits (whole numbers are
        always compared so), otherwise the error (see `measure.error_of`) may reach `tolerance`.
        `traffic` is bytes and `work` operations of one call, for all subjects or by name. `baseline`
        (the first subject, if not named) is timed twice a round: its ratio to itself is the A/A
        floor. Records `error`, `latency` and `host_time` (s). Raises ValueError for a bad argument, and
        for a size whose name is one of these misspelt.
        """
        _refuse_misspelt(workload)
        baseline = baseline or next(iter(subjects), None)
        if baseline is None:
            raise ValueError("subjects={} has nothing to compare; name one")
        if baseline not in subjects:
            raise ValueError(f"baseline={baseline!r} is no subject; {nearest(baseline, subjects)}")
        if cache not in ("cold", "warm"):
            raise ValueError(f"cache={cache!r} is neither cold nor warm; use one of them")
        if not 1 <= samples <= SAMPLES_AT_MOST:
            raise ValueError(f"samples={samples} must be 1 to {SAMPLES_AT_MOST}")
        sizes = workload_of(workload)
        bytes_of, work_of = _amounts("traffic", traffic, subjects), _amounts("work", work, subjects)
        if self._counting:
            return
        for name in subjects:
            self._events.check_new("error", name, sizes)
        self._events.write({"event": "workload", "workload": sizes})
        plan = Plan(
            workload=sizes,
            limit=0.0 if exact else tolerance,
            cache=cache,
            samples=samples,
            baseline=baseline,
            traffic=bytes_of,
            work=work_of,
            floor={name: self._floor(bytes_of[name], cache) for name in subjects},
        )
        first = self.seed * (CHECKS + UNSEEN)
        cases = [draw(inputs, reference, first + number) for number in range(CHECKS)]
        comparison = Comparison(self._events, plan, cases)
        for name, call in subjects.items():
            comparison.check(name, call)
        if self._timer is not None and time and comparison.failed != set(subjects):
            comparison.time(subjects, self._timer, _unseen(inputs, reference, first + CHECKS))
            self._observe()

    def _floor(self, traffic: Number | None, cache: str) -> float:
        """Return the least seconds of a call that starts cold; a warm one is not bound by memory."""
        if self._timer is None or cache == "warm":
            return 0.0
        return floor_seconds(traffic, self._timer.flush_bytes / 2, self._bandwidth)

    def count(self, metric: str, value: Any, *, unit: str, subject: str, **workload: Any) -> None:
        """Record a fact that `compare` does not measure: one number, or a list of up to 100 samples.

        Raises ValueError for what is not finite, and for a fact recorded before.
        """
        if self._counting:
            return
        plain = value.tolist() if hasattr(value, "tolist") else value
        values = list(plain) if isinstance(plain, list | tuple) else [plain]
        self._events.measured(metric, unit, subject, workload_of(workload), values)

    def launches(self, call: Callable[[], Any]) -> list[profile.Launch]:
        """Return the kernels that `call()` launches, in order; an empty list where sizes are tiny."""
        return [] if self.tiny else profile.launches(call)

    def profile(
        self,
        subject: str,
        call: Callable[[], Any] | None = None,
        *,
        code: str | bytes | None = None,
        counters: Sequence[str],
        **workload: Any,
    ) -> None:
        """Record evidence that is not time.

        With `code` (PTX or SASS as text, or a cubin, which is disassembled) each counter
        ``ptx:cp.async`` or ``sass:LDG.E.128`` is how many instructions start so. With `call` each is a
        metric of Nsight Compute, summed over the kernels that the call launches; it is read in one
        extra process, and only on a GPU.
        """
        if code is not None:
            text = profile.sass(code) if isinstance(code, bytes) else code
            for counter in counters:
                found = profile.instructions(text, counter.partition(":")[2])
                self.count(counter, found, unit="instructions", subject=subject, **workload)
        elif call is None:
            raise ValueError("profile needs a call or code=")
        elif self._counting:
            self._counting.region(call, subject, counters, workload_of(workload))
        elif self.on_gpu:
            self._events.write({"event": "counters", "counters": list(counters)})


def _refuse_misspelt(workload: dict[str, Any]) -> None:
    """Raise ValueError for a size that is rather one of the keywords of `compare`, misspelt."""
    for name in workload:
        close = get_close_matches(name.casefold(), _KEYWORDS, 1, _ALIKE)
        if close:
            remedy = f"write {close[0]}=, or give the size a name of its own"
            raise ValueError(f"{name}= is taken as a size, and looks like {close[0]}=; {remedy}")


def _unseen(inputs: Callable[[int], Any], reference: Subject, first: int) -> Iterator[Case]:
    """Draw cases, when they are asked for, that no subject has met."""
    for unseen in range(UNSEEN):
        yield draw(inputs, reference, first + unseen)


def _amounts(
    what: str, amount: Number | dict[str, Number] | None, subjects: dict[str, Subject]
) -> dict[str, Number | None]:
    """Return what one call of each subject moves or does, or raise ValueError."""
    given = amount if isinstance(amount, dict) else dict.fromkeys(subjects, amount)
    unknown = sorted(given.keys() - subjects.keys())
    if unknown:
        raise ValueError(f"{what}: {unknown[0]!r} is no subject; use {', '.join(subjects)}")
    found: dict[str, Number | None] = dict.fromkeys(subjects)
    for name, value in given.items():
        if value is not None:
            plain = number(value, f"{what} of {name!r}")
            if plain <= 0:
                raise ValueError(f"{what} of {name!r}: {plain} is not above zero")
            found[name] = plain
    return found
