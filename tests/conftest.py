"""What every test of the measuring half needs: a run that writes to a list, with or without a clock."""

import os
import time

os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ["WARPLOG_NOX"] = "nox"  # however these tests were started, commands begin so

import pytest
import torch
from hypothesis import HealthCheck, settings

from warplog.run import Run
from warplog.timer import Sample

# A slow or busy machine is no fault of the code: only what a test asserts may fail it.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


class HostTimer:
    """Times a call on the host with the performance counter; used where a test has no GPU."""

    name = "host"
    flush_bytes = 0

    def time(self, _name, call, *, warm):
        """Time one call."""
        if warm:
            call()
        before = time.perf_counter()
        outputs = call()
        taken = time.perf_counter() - before
        return Sample(taken, taken, outputs, queued=True)


class Written(list):
    """The events of a run, in order."""

    def metric(self, name, subject):
        """The one measurement of `name` of `subject`."""
        found = [
            event["measurement"]
            for event in self
            if event["event"] == "measurement"
            and (event["measurement"]["metric"], event["measurement"]["subject"]) == (name, subject)
        ]
        assert len(found) == 1, found
        return found[0]

    def failure(self, subject):
        """Why `subject` failed, or None if it did not."""
        reasons = [
            event["measurement"]["failed"]
            for event in self
            if event["event"] == "measurement"
            and event["measurement"]["subject"] == subject
            and "failed" in event["measurement"]
        ]
        return reasons[0] if reasons else None


@pytest.fixture
def written():
    return Written()


@pytest.fixture
def run(written):
    """A run that times on the host, as a run on a GPU times on the device."""
    return Run(written.append, seed=7, timer=HostTimer())


@pytest.fixture
def numbers():
    """Fresh random inputs of 1000 floats by seed."""

    def draw(seed):
        return torch.randn(1000, generator=torch.Generator().manual_seed(seed))

    return draw


def pytest_terminal_summary(terminalreporter):
    """Print what the tests of hard days counted; README states the same."""
    reports = terminalreporter.getreports("passed")
    counted = [pair for each in reports if each.when == "call" for pair in each.user_properties]
    if counted:
        terminalreporter.section("hard days")
    for what, number in counted:
        terminalreporter.write_line(f"{number:6,} times: {what}")
