"""Measurements stay on the disk until they are asked for, and are then what was checked."""

import pickle

import pytest
from factory import Lab, record_of, timed

from warplog import depot
from warplog.fault import Fault
from warplog.store import publish, read


@pytest.fixture
def path(tmp_path):
    artifact = Lab(tmp_path / "lab").artifact()
    return publish(record_of(artifact, timed(batch=31)), artifact.records)


@pytest.fixture
def forgotten(path):
    """The record as read, when its measurements are in memory no more."""
    record = read(path)
    depot._latest.clear()
    return record


def test_measurements_are_read_again_when_they_are_asked_for(forgotten):
    rows = timed(batch=31)
    assert len(forgotten.measurements) == len(rows)
    assert list(forgotten.measurements) == rows
    assert forgotten.measurements[1].subject == "peer"
    assert forgotten.measurements == rows


def test_a_file_that_changed_meanwhile_is_a_fault_and_no_mixture(forgotten, path):
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(Fault, match="changed while it was being read"):
        list(forgotten.measurements)


def test_a_file_that_is_gone_is_a_fault(forgotten, path):
    path.unlink()
    with pytest.raises(Fault, match="changed while it was being read"):
        list(forgotten.measurements)


def test_few_records_are_in_memory(path):
    for number in range(100):
        depot._keep((path, str(number)), [])
    assert len(depot._latest) == depot._KEPT
    assert (path, "99") in depot._latest


def test_a_record_travels_without_its_measurements(forgotten):
    travelled = pickle.loads(pickle.dumps(forgotten))  # noqa: S301 - our own
    assert len(pickle.dumps(forgotten)) < len(pickle.dumps(list(forgotten.measurements))) + 2000
    assert list(travelled.measurements) == timed(batch=31)
