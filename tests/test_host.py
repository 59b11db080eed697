"""Places to measure: which artifact begins when, on which GPU, and what a fault of one costs the others."""

import itertools
import threading
from collections import defaultdict
from pathlib import Path

import factory
import pytest
from rich.console import Console

from warplog import host, runner
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.runner import Options, Outcome
from warplog.session import Session
from warplog.source import Repository
from warplog.store import read

HERE = Repository.find(Path(__file__))


class Clock:
    """A host whose reproductions take the seconds that they are said to, and no real time.

    Time goes on to the next end when every place that has something to do is waiting.
    """

    def __init__(self, seconds, places):
        self.now, self.busy = 0.0, defaultdict(list)
        self._seconds, self._places = seconds, places
        self._ends, self._left = [], len(seconds)
        self._changed = threading.Condition()

    def reproduce(self, artifact, options, _report):
        with self._changed:
            end = self.now + self._seconds[artifact.slug]
            self.busy[options.gpu].append((self.now, end, artifact.slug))
            self._ends.append(end)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._may_end(end), timeout=20)
            self.now = max(self.now, end)
            self._ends.remove(end)
            self._left -= 1
            self._changed.notify_all()
        return Outcome(None, "simulated")

    def _may_end(self, end):
        return end == min(self._ends) and len(self._ends) == min(self._places, self._left)


def verified(repository, monkeypatch, seconds, gpus):
    """How long `verify` takes with this many GPUs, and what each had to do."""
    clock = Clock(seconds, gpus)
    monkeypatch.setattr(runner, "reproduce", clock.reproduce)
    artifacts = [each for each in repository.artifacts() if each.slug in seconds]
    one = Session(repository, [], Options(), publish=False, console=Console(quiet=True))
    one.reproduce_all(artifacts, host.Host(list(range(gpus))))
    return clock.now, clock.busy


def published():
    """The seconds that the newest published record of each artifact took."""
    found = {}
    for artifact in HERE.artifacts():
        records = [read(path) for path in artifact.records.glob("nvidia-h200/*.json")]
        if records:
            found[artifact.slug] = max(records, key=lambda record: record.recorded).seconds
    return found


def test_two_gpus_take_at_most_six_tenths_of_the_time_of_one(monkeypatch):
    seconds = published()
    one, _ = verified(HERE, monkeypatch, seconds, 1)
    two, busy = verified(HERE, monkeypatch, seconds, 2)
    assert one == pytest.approx(sum(seconds.values()))
    assert two / one <= 0.6, (two, one, dict(busy))


def test_a_gpu_has_one_artifact_at_a_time(monkeypatch):
    seconds = dict.fromkeys(published(), 10.0)
    _, busy = verified(HERE, monkeypatch, seconds, 3)
    assert set(busy) == {0, 1, 2}
    for spans in busy.values():
        for (_, end, _), (begin, _, _) in itertools.pairwise(spans):
            assert begin >= end
    assert sorted(slug for spans in busy.values() for _, _, slug in spans) == sorted(seconds)


def test_more_gpus_than_artifacts_are_not_too_many(monkeypatch):
    seconds = published()
    taken, _ = verified(HERE, monkeypatch, seconds, 2 * len(seconds))
    assert taken == max(seconds.values())


def test_the_longest_begins_first_and_one_never_measured_before_it(tmp_path):
    lab = factory.Lab(tmp_path / "lab")
    lab.artifact("a-unknown")
    for slug, seconds in (("b-short", 3.0), ("c-long", 90.0)):
        lab.publish(lab.artifact(slug), factory.timed(batch=31), seconds=seconds)
    found = host.longest_first(lab.repository.artifacts(), Archive(lab.repository))
    assert [each.slug for each in found] == ["a-unknown", "c-long", "b-short"]


def test_a_process_that_dies_on_one_gpu_leaves_both_gpus_to_the_others(tmp_path, monkeypatch):
    lab = factory.Lab(tmp_path / "lab")
    artifacts = [lab.artifact(slug) for slug in ("a", "b", "c", "d")]
    used, both = defaultdict(set), threading.Barrier(2)

    def reproduce(artifact, options, _report):
        used[artifact.slug].add(options.gpu)
        both.wait(20)
        if artifact.slug == "a":
            return Outcome(None, "process 1 of 6: killed by SIGSEGV", started=False)
        return Outcome(factory.record_of(artifact, factory.timed(batch=31)))

    monkeypatch.setattr(runner, "reproduce", reproduce)
    options = Options(aside=tmp_path)
    one = Session(lab.repository, [], options, publish=False, console=Console(quiet=True))
    assert one.reproduce_all(artifacts, host.Host([0, 1])) == [2, 0, 0, 0]
    assert used["a"] | used["b"] == used["c"] | used["d"] == {0, 1}


def test_a_device_without_a_cluster_is_a_mistake():
    with pytest.raises(Fault, match="give --on too"), host.places(None, "nvidia-h200", []):
        pass


def test_without_ray_the_remedy_is_said(monkeypatch):
    import builtins

    real = builtins.__import__

    def without_ray(name, *more):
        if name.partition(".")[0] == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return real(name, *more)

    monkeypatch.delitem(__import__("sys").modules, "warplog.cluster", raising=False)
    monkeypatch.delattr("warplog.cluster", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(Fault, match=r"there is no module ray; .*warplog\[ray\]"):
        host.places("local", None, []).__enter__()
