"""A record is whole, strict and sealed, and a publication never replaces one."""

import json

import msgspec
import pytest
from factory import Lab, measured, record_of, timed

from warplog.fault import Fault
from warplog.record import SCHEMA, Protocol, compact, dumps, loads, schema, seal_of
from warplog.store import publish, read, write_whole


@pytest.fixture
def artifact(tmp_path):
    return Lab(tmp_path / "lab").artifact()


@pytest.fixture
def record(artifact):
    return record_of(artifact, timed(batch=31))


def resealed(text, **changes):
    """The JSON of a record with other fields, as if the harness had written it."""
    fields = json.loads(text) | changes
    return json.dumps(fields).encode()


def test_a_record_reads_back_as_written(record):
    again = loads(dumps(record).encode(), "r.json")
    assert msgspec.structs.replace(again, seal="") == record


def test_a_measurement_is_one_line_of_a_diff(record):
    text = dumps(record)
    assert sum('"metric"' in line for line in text.splitlines()) == len(record.measurements)


def test_an_edit_by_hand_is_found_at_its_seal(record):
    text = dumps(record).replace("1e-05", "9e-06", 1)
    with pytest.raises(Fault, match="edited by hand") as caught:
        loads(text.encode(), "r.json")
    assert caught.value.place == f"r.json:{text.count(chr(10))}"


def test_a_record_cut_short_names_the_line(record):
    text = dumps(record)
    with pytest.raises(Fault, match="not strict JSON") as caught:
        loads(text[: len(text) // 2].encode(), "r.json")
    assert caught.value.place.startswith("r.json:")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_number_names_its_line(record, constant):
    text = dumps(record).replace("83.1", constant)
    with pytest.raises(Fault, match="not strict JSON") as caught:
        loads(text.encode(), "r.json")
    line = 1 + text[: text.index(constant)].count("\n")
    assert caught.value.place == f"r.json:{line}"


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"7", b'{"schema": "one"}', b"\xff{}"])
def test_what_is_no_record_is_a_fault(text):
    with pytest.raises(Fault):
        loads(text, "r.json")


def test_a_newer_schema_asks_for_a_newer_warplog(record):
    newer = resealed(dumps(record), schema=SCHEMA + 1, surprise=True)
    with pytest.raises(Fault, match="update Warplog"):
        loads(newer, "r.json")


def test_an_older_schema_is_not_guessed_at(record):
    with pytest.raises(Fault, match="schema 0"):
        loads(resealed(dumps(record), schema=0), "r.json")


def test_an_unknown_field_is_refused(record):
    with pytest.raises(Fault, match="hostname"):
        loads(resealed(dumps(record), hostname="gpu-7"), "r.json")


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000])
def test_a_record_nested_too_deep_is_a_fault(text):
    with pytest.raises(Fault, match="nested too deep"):
        loads(text, "r.json")


def test_a_key_given_twice_is_refused_at_its_line(record):
    """A parser keeps the last of the two, so the seal alone would not see it."""
    text = dumps(record).replace('"device"', '"device": "better-gpu",\n "device"', 1)
    with pytest.raises(Fault, match="'device' is given twice") as caught:
        loads(text.encode(), "r.json")
    line = text[: text.rindex('"device"')].count("\n") + 1
    assert caught.value.place == f"r.json:{line}"
    with pytest.raises(Fault, match="'batch' is given twice"):
        loads(dumps(record).replace('"batch"', '"batch": 1, "batch"', 1).encode(), "r.json")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"runs": None}, "neither runs nor a failure"),
        ({"failed": "wrong"}, "both runs and a failure"),
        ({"runs": [[1.0]] * 5}, "5 runs, but the record is of 6"),
        ({"runs": [[0.0]] * 6}, "a time of zero or less"),
        ({"runs": [[-1.0, 1.0]] * 6}, "a time of zero or less"),
        ({"runs": [[10**400]] * 6}, "a number beyond 1e\\+300"),
        ({"traffic": 10**400}, "a number beyond 1e\\+300"),
        ({"work": -1}, "work is negative"),
        ({"workload": {"two words": 1}}, "no plain word"),
        ({"workload": {"batch": 10**400}}, "a number beyond 1e\\+300"),
    ],
)
def test_a_sealed_measurement_that_is_unsound_is_refused_at_its_line(artifact, changes, problem):
    """Whoever can write a record can seal it: the seal vouches for nothing else."""
    rows = timed(batch=31)
    rows[1] = msgspec.structs.replace(rows[1], **changes)
    text = dumps(record_of(artifact, rows))
    with pytest.raises(Fault, match=problem) as caught:
        loads(text.encode(), "r.json")
    line = text[: text.index('"latency", "unit": "s", "subject": "peer"')].count("\n") + 1
    assert caught.value.place == f"r.json:{line}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"recorded": "yesterday"}, "no UTC time"),
        ({"protocol": Protocol(1, 0, "t", 0)}, "0 runs"),
        ({"protocol": Protocol(1, 6, "t", 10**400)}, "a number beyond"),
    ],
)
def test_a_sealed_record_that_is_unsound_is_refused(artifact, changes, problem):
    with pytest.raises(Fault, match=problem):
        loads(dumps(record_of(artifact, [], **changes)).encode(), "r.json")


def test_a_counter_may_come_from_one_run(artifact):
    counter = measured("dram__bytes_read.sum", "kernel", [1e6], unit="B")
    assert loads(dumps(record_of(artifact, [*timed(batch=1), counter])).encode(), "r.json")


def test_a_record_filed_elsewhere_is_refused(record, tmp_path):
    path = publish(record, tmp_path / "records")
    assert read(path) == loads(path.read_bytes(), "r.json")
    moved = tmp_path / "records" / "nvidia-b200" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    with pytest.raises(Fault, match="filed as nvidia-b200"):
        read(moved)


def test_a_missing_record_is_a_fault(tmp_path):
    with pytest.raises(Fault, match="cannot be read"):
        read(tmp_path / "none.json")


def test_a_publication_never_replaces_a_record(record, tmp_path, monkeypatch):
    """Two in one second: the second takes the next second, and both are there."""
    monkeypatch.setattr("warplog.store.time.sleep", lambda _: None)
    monkeypatch.setattr("warplog.store.utc_now", lambda: "2026-12-02T10:15:01Z")
    first = publish(record, tmp_path)
    before = first.read_bytes()
    second = publish(record, tmp_path)
    assert second != first
    assert first.read_bytes() == before
    assert read(second).recorded == "2026-12-02T10:15:01Z"
    assert sorted(path.name for path in first.parent.iterdir()) == [first.name, second.name]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_a_number_keeps_six_digits_and_a_count_all():
    assert compact(1.23456789e-5) == 1.23457e-5
    assert compact(123_456_789) == 123_456_789
    with pytest.raises(ValueError, match="nan"):
        compact(float("nan"))


def test_more_samples_than_a_record_may_hold_are_refused(artifact):
    long = msgspec.structs.replace(measured("latency", "kernel", [1]), runs=[[1.0] * 101])
    with pytest.raises(Fault, match="length"):
        loads(dumps(record_of(artifact, [long])).encode(), "r.json")


def test_the_seal_covers_every_field_but_itself(record):
    assert seal_of(record) == seal_of(msgspec.structs.replace(record, seal="x"))
    for field, value in (("seconds", 1.0), ("disturbed", ["x"]), ("recorded", "")):
        assert seal_of(msgspec.structs.replace(record, **{field: value})) != seal_of(record)


def test_the_schema_describes_what_is_written(record):
    properties = schema()["$defs"]["Record"]["properties"]
    assert set(json.loads(dumps(record))) == set(properties)


@pytest.mark.parametrize(
    "written",
    [
        lambda fields: json.dumps(fields, indent=3),
        lambda fields: json.dumps(fields, sort_keys=True, separators=(",", ":")),
        lambda fields: json.dumps(dict(reversed(fields.items())), ensure_ascii=False),
        lambda fields: (
            json.dumps(fields).replace("[1e-05]", "[0.00001]").replace("[0.00012]", "[12e-5]")
        ),
    ],
)
def test_the_seal_is_of_the_content_and_not_of_its_layout(record, written):
    hot = msgspec.structs.replace(record, disturbed=['a "fan" at 90 °C', "1, 2"])
    fields = json.loads(dumps(hot))
    again = loads(written(fields).encode(), "r.json")
    assert msgspec.structs.replace(again, seal="") == hot


@pytest.mark.parametrize("old", ["1.01e-05", '"kernel"', "83.1", '"batch": 31', "0123456789abcdef"])
def test_a_single_changed_number_or_word_breaks_the_seal(record, old):
    text = dumps(record)
    assert old in text
    new = old.replace("1", "2") if "1" in old else '"colonel"'
    with pytest.raises(Fault, match="seal"):
        loads(text.replace(old, new, 1).encode(), "r.json")


def test_the_quick_way_to_a_seal_is_taken(record, monkeypatch):
    """What the harness wrote is checked without writing its numbers again."""
    text = dumps(record).encode()
    monkeypatch.setattr("warplog.record.seal_of", lambda _: pytest.fail("written again"))
    assert loads(text, "r.json").artifact == record.artifact
