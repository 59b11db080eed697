"""A record that someone offers: each way in which it can be wrong is one finding, and a good one has none."""

import json
import os
import re
import threading
import time
from datetime import UTC, datetime

import factory
import msgspec
import pytest
import shelf
from factory import H200, measured, record_of, timed
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from warplog import cli
from warplog.audit import audit
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.privacy import kinds
from warplog.record import Record, dumps
from warplog.source import closure_digest
from warplog.store import publish

NOW = datetime(2026, 12, 3, tzinfo=UTC)
PINS = {**H200, "pin_bandwidth": 4.8e12, "l2_bytes": 62_914_560, "watts_limit": 700.0}
EIGHT_GIGABYTES = 8_000_000_000
CLOCKS = [{"sm_mhz": 1979, "celsius": 41}, {"sm_mhz": 1905, "celsius": 44}]
COPY = {"traffic": EIGHT_GIGABYTES, "operation": "copy"}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    made = factory.lab_with_entry(tmp_path / "lab")
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def found(lab):
    """What is found in an offered record of `rows`; `changes` replace its fields, those of `about` its
    environment's.
    """

    def look(rows=None, about=None, place="offered.json", **changes):
        record = offer(lab, measured_again() if rows is None else rows)
        environment = msgspec.structs.replace(record.environment, **(about or {}))
        record = msgspec.structs.replace(record, **{"environment": environment, **changes})
        path = lab.root.parent / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dumps(record), encoding="utf-8")
        return audit(path, Archive(lab.repository), NOW)

    return look


def measured_again():
    """The published measurements, with their runs in another order."""
    return [
        msgspec.structs.replace(each, runs=each.runs[1:] + each.runs[:1])
        for each in timed(batch=31)
    ]


def offer(lab, rows, recorded="2026-11-02T10:15:00Z", **changes):
    """A record that is not the published one: of another second, and of other clocks."""
    plain = record_of(lab.artifact(), rows, recorded=recorded, **changes)
    about = msgspec.structs.replace(plain.environment, clocks=CLOCKS)
    return msgspec.structs.replace(plain, environment=about)


def only(audited):
    assert len(audited.findings) == 1, [str(each) for each in audited.findings]
    return str(audited.findings[0])


def latency(seconds, runs=6, **about):
    """A time of six runs with some spread."""
    return measured("latency", "kernel", [seconds * (1 + n / 1000) for n in range(runs)], **about)


def ceilings(lab, bandwidth=4.6e12, rate=1e15, device="nvidia-h200", gpu=PINS):
    """A published record of what the device was measured to reach."""
    artifact = lab.artifact("ceilings")
    plain = record_of(artifact, [])
    rows = [
        latency(EIGHT_GIGABYTES / bandwidth, **COPY),
        latency(1e15 / rate, work=10**15, dtype="fp8"),
    ]
    about = msgspec.structs.replace(plain.environment, gpu=gpu)
    lab.publish(artifact, rows, environment=about, device=device)


def test_a_good_record_has_no_finding(found):
    audited = found()
    assert audited.findings == ()
    assert audited.source == "fresh"


def test_a_file_that_is_none(lab):
    with pytest.raises(Fault, match="name the file of a record"):
        audit(lab.root / "no.json", Archive(lab.repository), NOW)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:200], "not strict JSON"),
        (lambda text: text.replace('"schema": 1', '"schema": 2'), "newer than this Warplog's"),
        (lambda text: text.replace('"seconds": 83.1', '"seconds": "long"'), "`str`"),
        (lambda text: text.replace("[[1e-05]", f"[{[1e-5] * 101}", 1), "<= 100"),
    ],
)
def test_what_is_no_sealed_record_says_where(lab, change, words):
    path = lab.root / "offered.json"
    path.write_text(change(dumps(record_of(lab.artifact(), timed(batch=31)))), encoding="utf-8")
    audited = audit(path, Archive(lab.repository), NOW)
    assert audited.record is None
    assert words in only(audited)
    assert only(audited).startswith("offered.json:")


def test_a_broken_seal_stops_no_other_check(lab):
    path = lab.root / "offered.json"
    text = dumps(offer(lab, measured_again(), seconds=0.5))
    path.write_text(text.replace('"seconds": 0.5', '"seconds": 0.0001'), encoding="utf-8")
    audited = audit(path, Archive(lab.repository), NOW)
    seal, duration = map(str, audited.findings)
    assert "the content does not match its seal: edited by hand; ask for the file as the" in seal
    assert "git" not in seal
    assert "seconds: 0.0001, but its samples last" in duration
    assert audited.record is not None


def test_the_published_record_itself_repeats_nothing(lab):
    (path,) = lab.root.rglob("records/*/*.json")
    assert audit(path, Archive(lab.repository), NOW).findings == ()


def test_the_second_of_another_record(found):
    assert (
        "recorded: the very second of artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
        in only(found(recorded="2026-12-02T10:15:00Z"))
    )


def test_the_clocks_of_another_record(found):
    clocks = [{"sm_mhz": 1980, "celsius": 40}, {"sm_mhz": 1905, "celsius": 44}]
    assert "clocks: every clock, temperature and power is that of" in only(
        found(about={"clocks": clocks})
    )
    assert found(about={"clocks": clocks[:1]}).findings == ()


@pytest.mark.parametrize(("factor", "said"), [(0.5, "0.5 times those of"), (1, "1 times those of")])
def test_the_latencies_of_another_record_times_a_constant(found, factor, said):
    rows = [
        msgspec.structs.replace(each, runs=[[value * factor for value in run] for run in each.runs])
        for each in timed(batch=31)[:3]
    ]
    assert f"the latencies, run by run, are {said} artifacts/row-sum/" in only(found(rows))


def test_latencies_that_hardly_vary_may_be_those_of_another_record(lab, found):
    """A clock that ticks in steps gives the same times twice."""
    rows = [measured("latency", "kernel", [1e-5, 1.001e-5, 1e-5, 1e-5, 1e-5, 1e-5], batch=31)]
    lab.publish(lab.artifact(), rows, recorded="2026-12-02T11:00:00Z")
    assert found(rows).findings == ()


@pytest.mark.parametrize(("factor", "wrong"), [(1.12, True), (0.85, True), (1.08, False)])
def test_a_baseline_that_took_another_time_than_itself(found, factor, wrong):
    rows = [
        msgspec.structs.replace(each, runs=[[value * factor for value in run] for run in each.runs])
        if each.metric == "latency_again"
        else each
        for each in measured_again()
    ]
    said = [str(each) for each in found(rows).findings]
    assert ["timed in turns with it" in each for each in said] == ([True] if wrong else [])


H100 = {"name": "NVIDIA H100 80GB HBM3"}


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (H200 | {"memory_bytes": 85 * 10**9}, "memory_bytes: 85 GB, which no NVIDIA H200 has"),
        (H200 | {"memory_bytes": 150109880320, "pin_bandwidth": 4.8143e12}, None),
        (H200 | {"pin_bandwidth": 8e12}, "pin_bandwidth: 8 TB/s, which no NVIDIA H200 has"),
        (H100 | {"memory_bytes": 85 * 10**9, "pin_bandwidth": 3.36e12}, None),
        (H100 | {"memory_bytes": 150 * 10**9}, "memory_bytes: 150 GB, which no NVIDIA H100 80GB"),
        (H100 | {"pin_bandwidth": 4.8e12}, "pin_bandwidth: 4.80 TB/s, which no NVIDIA H100 80GB"),
        ({"name": "NVIDIA H200 MIG 1g.18gb", "memory_bytes": 18 * 10**9}, None),
        ({"name": "NVIDIA GH200 480GB", "memory_bytes": 97 * 10**9}, None),
    ],
)
def test_memory_that_no_card_of_that_name_has(found, gpu, words):
    device = re.sub(r"[^a-z0-9]+", "-", gpu["name"].lower())
    audited = found(about={"gpu": gpu}, device=device)
    assert words in only(audited) if words else audited.findings == ()


@pytest.mark.parametrize(("seconds", "wrong"), [(1.1e-6, True), (1.4e-6, False)])
def test_a_time_shorter_than_two_events_are_apart(found, lab, seconds, wrong):
    shelf.write_ceilings(lab)
    audited = found([latency(seconds, batch=31)])
    words = "1.10 µs, and two events with nothing between them are 1.25 µs apart"
    assert [words in str(each) for each in audited.findings] == ([True] if wrong else [])


def test_a_record_filed_under_another_name(found):
    place = "row-sum/records/nvidia-h200/2026-11-02T101501Z.json"
    assert "file it as artifacts/row-sum/records/nvidia-h200/2026-11-02T101500Z.json" in only(
        found(place=place)
    )
    assert found(place=place.replace("1501Z", "1500Z")).findings == ()


def test_a_record_of_other_source_is_stale(found, lab):
    source = record_of(lab.artifact(), []).source
    files = {**source.files, "kernel.py": "sha256:0"}
    source = msgspec.structs.replace(source, files=files, digest=closure_digest(files))
    audited = found(source=source)
    assert audited.source == "stale"
    assert (
        "source: stale, kernel.py changed since it was measured; check it at the commit 0123"
        in (only(audited))
    )


@pytest.mark.parametrize(
    "name",
    ["gone.py", "../../entries/2026-12-02-one-sum.md", "../other/kernel.py", "\0", "a" * 999],
)
def test_a_file_that_the_checkout_does_not_have(found, lab, name):
    source = record_of(lab.artifact(), []).source
    files = {**source.files, name: "sha256:0"}
    source = msgspec.structs.replace(source, files=files, digest=closure_digest(files))
    audited = found(source=source)
    assert audited.source == "unknown"
    assert "source: the checkout has no file" in only(audited)


def test_a_digest_that_does_not_fit_its_files(found, lab):
    source = msgspec.structs.replace(record_of(lab.artifact(), []).source, digest="sha256:0")
    assert "the digest does not fit its own list of files" in only(found(source=source))


def test_an_artifact_that_nobody_knows(found):
    assert "artifact: there is no such artifact; use one of: row-sum" in only(
        found(artifact="ghost")
    )


def test_a_time_below_what_the_pins_allow(found):
    """8 GB at 4.8 TB/s take 1.67 ms, less what an L2 may hold back."""
    fast = found([latency(1e-3, traffic=EIGHT_GIGABYTES, n=1)], {"gpu": PINS})
    assert "offered.json:" in only(fast)
    assert (
        "latency of 'kernel' on n=1: 1 ms is below the 1.65 ms that its pins of 4.80 TB/s"
        in only(fast)
    )
    assert found([latency(1.66e-3, traffic=EIGHT_GIGABYTES, n=1)], {"gpu": PINS}).findings == ()


def test_a_warm_time_may_be_below_what_the_pins_allow(found):
    row = msgspec.structs.replace(latency(1e-3, traffic=EIGHT_GIGABYTES, n=1), cache="warm")
    assert found([row], {"gpu": PINS}).findings == ()


def test_an_invented_cache_does_not_excuse_a_time(found, lab):
    protocol = msgspec.structs.replace(record_of(lab.artifact(), []).protocol, flush_bytes=10**13)
    row = latency(1e-3, traffic=EIGHT_GIGABYTES, n=1)
    assert "is below" in only(found([row], {"gpu": PINS}, protocol=protocol))


@pytest.mark.parametrize(("seconds", "wrong"), [(1.90e-3, True), (1.95e-3, False)])
def test_a_time_below_what_the_ceilings_allow(found, lab, seconds, wrong):
    """8 GB at a measured 4 TB/s take 2 ms, less what an L2 may hold back, give or take three percent."""
    ceilings(lab, bandwidth=4e12)
    audited = found([latency(seconds, traffic=EIGHT_GIGABYTES, n=1)], {"gpu": PINS})
    assert ["the measured ceiling of 4.12 TB/s" in str(each) for each in audited.findings] == (
        [True] if wrong else []
    )


def test_a_rate_above_the_best_that_was_measured(found, lab):
    ceilings(lab)
    row = latency(1e-3, work=11 * 10**11, n=1)
    assert "the measured ceiling of 1.03 POP/s allows" in only(found([row], {"gpu": PINS}))


def test_pins_that_other_records_of_the_device_do_not_have(found, lab):
    ceilings(lab)
    fast = {"gpu": PINS | {"pin_bandwidth": 4.88e12}}
    assert "pin_bandwidth: 4.88 TB/s, but 4.80 TB/s in other records" in only(found(about=fast))


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"gpu": None}, "device: 'nvidia-h200', but gpu says otherwise"),
        ({"gpu": H200 | {"name": "NVIDIA B200"}}, "device: 'nvidia-h200' is not the gpu's 'NVIDIA B200'"),
        ({"clocks": [{"sm_mhz": 19800}]}, "sm_mhz: 19800 is impossible"),
        ({"clocks": [{"sm_mhz": 0}]}, "sm_mhz: 0 is impossible"),
        ({"clocks": [{"memory_mhz_most": 99999}]}, "memory_mhz_most: 99999 is impossible"),
        ({"clocks": [{"celsius": 400}]}, "celsius: 400 is impossible"),
        ({"clocks": [{"watts": 2000}], "gpu": PINS}, "watts: 2000 is impossible"),
        ({"clocks": [{"sm_mhz_least": 1900, "sm_mhz_most": 1800}]}, "sm_mhz_least: 1900 is imposs"),
        ({"clocks": [{"slowed": ["thermal slowdown"]}]}, "but the clocks saw thermal slowdown"),
        ({"clocks": [{"others": 2}]}, "but the clocks saw other processes on the GPU"),
    ],
)  # fmt: skip
def test_what_no_machine_says_of_itself(found, about, words):
    assert words in only(found(about=about))


def test_a_disturbance_that_is_told_is_no_finding(found):
    about = {"clocks": [{"slowed": ["thermal slowdown", "power cap"]}]}
    assert found(about=about, disturbed=["run 1: thermal slowdown"]).findings == ()
    assert found(about={"clocks": [{"slowed": ["power cap"]}]}).findings == ()


def test_more_time_than_the_reproduction_took(found):
    assert "seconds: 0.0001, but its samples last" in only(found(seconds=0.0001))


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        ("2026-12-04T00:00:00Z", "is still to come"),
        ("2026-13-40T00:00:00Z", "is no time of any day"),
    ],
)
def test_a_date_that_cannot_be(found, recorded, words):
    assert words in only(found(recorded=recorded))


def test_too_few_runs(found, lab):
    protocol = msgspec.structs.replace(record_of(lab.artifact(), []).protocol, runs=5)
    assert "5 runs are too few to publish; measure again with 6" in only(
        found([latency(1e-3, 5, n=1)], protocol=protocol)
    )


def samples(seconds, runs, metric="latency", **workload):
    lists = [[seconds * factor for factor in run] for run in runs]
    return msgspec.structs.replace(
        measured(metric, "kernel", [1] * len(runs), **workload), runs=lists
    )


SPREAD = [[1 + (run * 7 + n) / 1000 for n in range(5)] for run in range(6)]


def test_samples_without_any_spread(found):
    flat = samples(1e-3, [[1] * 5] * 6, n=1)
    assert "latency of 'kernel' on n=1: every sample is 1 ms" in only(
        found([flat, *(samples(1e-3, SPREAD, n=n) for n in (2, 3))][:1])
    )


def test_runs_without_any_spread(found):
    equal = samples(1e-3, [[1 - n / 100, 1, 1 + n / 100] for n in range(1, 7)], n=1)
    assert "no run of 6 differs from 1 ms" in only(found([equal]))


def test_a_coarse_clock_gives_equal_samples_of_short_calls(found):
    short = samples(2e-6, [[1] * 5] * 6, n=1)
    others = [samples(1e-3 * n, SPREAD, n=n) for n in (2, 3)]
    assert found([short, *others]).findings == ()
    assert "every sample is 2 µs" in only(found([short]))


def test_what_is_flat_all_over_is_summed_up(found):
    rows = [samples(1e-3, [[1] * 5] * 6, n=n) for n in range(9)]
    said = [str(each) for each in found(rows).findings]
    assert len(said) == 4
    assert "6 more times of 9 have no spread either" in said[-1]


def test_a_run_that_is_a_copy(found):
    row = samples(1e-3, [*SPREAD[:5], SPREAD[1]], n=1)
    assert "run 6 of latency of 'kernel' on n=1 has the samples of run 2 of" in only(found([row]))


PRIVATE = {
    "/home/anna/warplog": "path",
    "C:\\Users\\anna\\x": "path",
    "~/x": "path",
    "/opt/x": "path",
    "anna@example.org": "e-mail address",
    "192.168.17.4": "network address",
    "2001:db8:85a3::8a2e:370:7334": "network address",
    "gpu-17.cluster.internal": "host name",
    "ip-10-0-3-17": "host name",
    "anna@gpu17:": "host name",
    "GPU-9d6ea3a1-5b4c-4a4e-9a3c-2f1d2a3b4c5d": "hardware address",
    "https://wiki.lan/x": "web address",
}


@pytest.mark.parametrize("text", PRIVATE)
@pytest.mark.parametrize(
    "where", ["subject", "workload", "failed", "disturbed", "variables", "unit"]
)
def test_a_private_trace_is_told_by_kind_and_never_shown(found, text, where):
    row = {
        "subject": latency(1e-3, n=1),
        "workload": latency(1e-3, name=text),
        "failed": measured("rows", "kernel", None, failed=f"lost {text} there", n=1),
        "unit": measured("rows", "kernel", [1] * 6, unit=text, n=1),
    }.get(where, latency(1e-3, n=1))
    row = msgspec.structs.replace(row, subject=text) if where == "subject" else row
    about = {"variables": {"OMP_NUM_THREADS": text}} if where == "variables" else {}
    audited = found([row], about, disturbed=[text] if where == "disturbed" else [])
    said = [str(each) for each in audited.findings]
    assert said
    assert any(PRIVATE[text] in each for each in said), said
    assert not any(text in each for each in said)


@pytest.mark.parametrize(
    "about",
    [
        {"system": "Linux gpu17 x86_64"},
        {"python": "3.12 of anna"},
        {"driver": "on gpu17"},
        {"packages": {"torch": "from a wheel"}},
    ],
)
def test_a_field_with_a_form_of_its_own_holds_nothing_else(found, about):
    assert "holds a trace: more than a" in only(found(about=about))


@pytest.mark.parametrize(
    "text",
    [
        "fp8 matmul, fast accumulation", "a/b", "padded sort, warm", "sorted -> flat", "dram__bytes_read.sum",
        "1152-byte rows", "bf16 [64, 128] @ w", "k=2..32", "at 3:15", "torch.topk", "10.0", "…/kernel.py",
    ],
)  # fmt: skip
def test_ordinary_names_hold_no_trace(text):
    assert kinds(text) == []


def test_a_private_trace_in_the_name_of_a_field(found):
    said = only(found(about={"variables": {"/home/anna/x": "1"}}))
    assert "environment.variables: holds a trace: " in said
    assert "in a name" in said
    assert "anna" not in said


def test_a_version_is_no_address(found):
    packages = {"nvidia-cublas": "13.1.0.3", "torch": "2.11.0+cu130", "triton": "3.6.0.dev1"}
    assert found(about={"packages": packages, "driver": "580.95.05"}).findings == ()


def test_the_command_says_what_it_checked_and_what_it_means(lab, found):
    del found
    path = lab.root / "offered.json"
    record = offer(lab, measured_again())
    path.write_text(dumps(record), encoding="utf-8")
    result = CliRunner().invoke(cli.app, ["verify-record", str(path)])
    assert result.exit_code == 0, result.output
    words = "4 measurements, 24 medians from 24 samples; source fresh; no sign of error; a seal "
    assert words in result.output
    assert "its claims by this record: 1 supported" in result.output
    assert (
        "copy it to artifacts/row-sum/records/nvidia-h200/2026-11-02T101500Z.json" in result.output
    )


def test_the_command_says_what_a_record_disputes(lab):
    path = lab.root / "offered.json"
    peer = [1.5e-4 + n * 1e-7 for n in range(6)]
    rows = [latency(1e-4, batch=31), measured("latency", "peer", peer, batch=31)]
    record = offer(lab, rows)
    path.write_text(dumps(record), encoding="utf-8")
    result = CliRunner().invoke(cli.app, ["verify-record", str(path)])
    assert result.exit_code == 0, result.output
    assert "disputes fast: refuted here, supported on nvidia-h200" in result.output


def test_the_command_ends_with_1_and_a_line_a_finding(lab):
    path = lab.root / "offered.json"
    record = offer(lab, measured_again(), recorded="2996-11-02T10:15:00Z", seconds=0)
    path.write_text(dumps(record), encoding="utf-8")
    result = CliRunner().invoke(cli.app, ["verify-record", str(path)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].startswith("offered.json:")
    assert "2 findings" in lines[-1] or "2 findings" in result.output


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=9),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)  # fmt: skip


@given(data=st.data())
def test_whatever_a_sealed_record_holds_is_findings_and_no_crash(tmp_path_factory, data):
    """A record with its seal put on again, in which one value, wherever it stands, is another."""
    lab = factory.Lab(tmp_path_factory.mktemp("fuzz") / "lab")
    plain = record_of(lab.artifact(), timed(batch=31))
    about = msgspec.structs.replace(plain.environment, gpu=PINS)
    tree = json.loads(dumps(msgspec.structs.replace(plain, environment=about)))
    node, steps = tree, []
    while isinstance(node, dict | list) and node:
        names = sorted(node) if isinstance(node, dict) else range(len(node))
        steps.append(data.draw(st.sampled_from(names)))
        parent, node = node, node[steps[-1]]
    parent[steps[-1]] = data.draw(VALUES)
    path = lab.root / "offered.json"
    try:
        path.write_text(dumps(msgspec.convert(tree, Record)), encoding="utf-8")
    except (msgspec.ValidationError, ValueError, RecursionError):
        path.write_text(json.dumps(tree), encoding="utf-8")
    for each in audit(path, Archive(lab.repository), NOW).findings:
        assert str(each).startswith("offered.json")


def test_a_file_that_was_added_is_not_said_to_have_changed(lab):
    (lab.root / "artifacts/row-sum/notes.txt").write_text("a note\n")
    record = offer(lab, measured_again())
    (lab.root / "artifacts/row-sum/more.txt").write_text("a note\n")
    path = lab.root / "offered.json"
    path.write_text(dumps(record), encoding="utf-8")
    said = only(audit(path, Archive(lab.repository), NOW))
    assert "source: stale, more.txt was added since it was measured" in said


def verified(path):
    return CliRunner().invoke(cli.app, ["verify-record", str(path)])


def test_a_copy_of_a_published_record_is_said_to_be_one(lab, tmp_path):
    next(lab.root.glob("artifacts/row-sum/records/*/*.json")).unlink()
    path = publish(offer(lab, measured_again()), lab.artifact().records)
    (tmp_path / "copy.json").write_bytes(path.read_bytes())
    result = verified(tmp_path / "copy.json")
    assert f"published already, as {path.relative_to(lab.root).as_posix()}" in result.output
    assert "to offer it" not in result.output


def test_a_record_without_a_gpu_is_not_to_be_offered(lab):
    path = lab.root / "offered.json"
    path.write_text(dumps(offer(lab, measured_again(), device="cpu")), encoding="utf-8")
    result = verified(path)
    assert result.exit_code == 1
    assert "offered.json: was made without a GPU" in result.output
    assert "measure on one: nox -s reproduce -- row-sum --publish" in result.output
    assert "commit" not in result.output


def test_what_a_broken_reproduction_kept_is_called_so(lab):
    path = lab.root / "a.incomplete.json"
    path.write_text('{"incomplete": true, "artifact": "row-sum", "reason": "x", "runs": []}')
    result = verified(path)
    assert result.exit_code == 1
    assert "no record: incomplete; it holds what was measured before a fault" in result.output


@pytest.mark.parametrize("again", [1.0, 3.0])
def test_a_number_that_is_there_twice(found, again):
    """No claim can be judged by both, nor by one that is chosen."""
    second = latency(1e-3 * again, batch=9)
    said = only(found([latency(1e-3, batch=9), second]))
    assert "latency of 'kernel' on batch=9: is there twice" in said


def test_a_size_in_another_spelling_is_the_same_size(found):
    assert "is there twice" in only(found([latency(1e-3, batch=9), latency(2e-3, batch=9.0)]))


def test_the_same_number_of_another_size_or_subject_is_none_of_the_kind(found):
    other = msgspec.structs.replace(latency(2e-3, batch=9), subject="peer")
    assert found([latency(1e-3, batch=9), latency(3e-3, batch=8), other]).findings == ()


@pytest.mark.parametrize("metric", ["speedup", "bandwidth", "rate", "roofline_fraction"])
def test_what_is_derived_is_never_recorded(found, metric):
    row = measured(metric, "kernel", [9 + n / 10 for n in range(6)], n=1)
    assert f"{metric} of 'kernel' on n=1: is derived, and never recorded" in only(found([row]))


def test_a_time_in_another_unit(found):
    row = msgspec.structs.replace(latency(1.0, batch=9), unit="ms")
    assert "latency of 'kernel' on batch=9: in 'ms', where it is in 's'" in only(found([row]))


def test_many_of_the_kind_are_summed_up(found):
    said = [str(each) for each in found([latency(1e-3 * (n + 1), n=1) for n in range(9)]).findings]
    assert sum("is there twice" in each for each in said) == 3
    assert sum("5 more measurements are of such a kind" in each for each in said) == 1


def test_a_record_of_nothing(found):
    assert "measurements: there is none" in only(found([]))


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"version": 99}, "protocol: version 99 is newer than this Warplog's"),
        ({"version": 0}, "protocol: a version below 1"),
        ({"flush_bytes": -1}, "less than nothing flushed"),
        ({"harness": "ours"}, "protocol: the harness is named by no digest"),
    ],
)
def test_a_protocol_that_no_harness_has(found, lab, about, words):
    protocol = msgspec.structs.replace(offer(lab, []).protocol, **about)
    assert words in only(found(protocol=protocol))


@pytest.mark.parametrize("commit", ["main", "\x1b[2J", "0123456789abcdef\nfine", "A" * 40, ""])
def test_a_commit_that_is_none(found, lab, commit):
    source = msgspec.structs.replace(offer(lab, []).source, commit=commit)
    assert "source: the commit is none" in only(found(source=source))


def test_a_date_before_there_was_a_harness(found):
    words = "recorded: 1970-01-01T00:00:00Z is before the first harness"
    assert words in only(found(recorded="1970-01-01T00:00:00Z"))


def test_an_instruction_whose_name_ends_like_a_hosts_is_no_trace(found):
    row = msgspec.structs.replace(latency(1e-3, batch=9), metric="ptx:ld.local")
    assert "holds a trace" not in str(found([row]))
    row = msgspec.structs.replace(latency(1e-3, batch=9), subject="node7.local")
    assert "measurements.0.subject: holds a trace: host name" in only(found([row]))


@pytest.mark.parametrize("piece", ["x", "x.", "a-", "1.", "a@", "\\", "a/", "gpu-"])
def test_no_text_takes_long(found, piece):
    """A text of a megabyte once took longer than anyone waits."""
    text = piece * (1_000_000 // len(piece))
    row = msgspec.structs.replace(latency(1e-3, batch=9), subject=text)
    before = time.process_time()
    said = only(found([row], disturbed=[(piece * 4000)[:4000]]))
    assert "measurements.0.subject: holds a trace: more than 4000 characters" in said
    assert time.process_time() - before < 5


@pytest.mark.parametrize("command", ["verify-record", "compare-records"])
@pytest.mark.parametrize("field", ["artifact", "device", "recorded"])
def test_no_field_of_a_record_speaks_for_the_command(lab, command, field):
    """Neither an escape code nor a line of its own."""
    words = "row-sum\x1b[2J\nits claims by this record: 9 supported"
    record = msgspec.structs.replace(offer(lab, measured_again()), **{field: words})
    path = lab.root / "offered.json"
    path.write_text(dumps(record), encoding="utf-8")
    files = [str(path)] * (2 if command == "compare-records" else 1)
    result = CliRunner().invoke(cli.app, [command, *files], color=True)
    assert "\x1b" not in result.output
    assert "its claims by this record: 9 supported" not in result.output.split("\n")


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("command", ["verify-record", "compare-records"])
def test_a_file_without_an_end_is_not_read_to_it(command):
    words = [command, "/dev/zero"] + (["/dev/zero"] if command == "compare-records" else [])
    fault = CliRunner().invoke(cli.app, words).exception
    assert isinstance(fault, Fault)
    assert "/dev/zero: holds more than 64 MiB, which no record does" in str(fault)


def test_a_record_may_come_through_a_pipe(lab):
    pipe = lab.root / "pipe"
    os.mkfifo(pipe)
    text = dumps(offer(lab, measured_again()))
    writer = threading.Thread(target=lambda: pipe.write_text(text, encoding="utf-8"))
    writer.start()
    result = verified(pipe)
    writer.join()
    assert result.exit_code == 0
    assert "no sign of error" in result.output
