"""Where and how a page was measured, how to measure it again, and what links lead to."""

import re

import msgspec
import pytest
from factory import FRONT, Lab, lab_with_entry, measured, record_of, timed
from pages import B200, on, outcome, publish_b200, publish_later, shown

from warplog.conditions import duration
from warplog.provenance import environment, strip


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def fact(lab, label):
    """The cells of one row of the environment."""
    text = environment(outcome(lab))
    cells = re.search(rf'<th scope="row">{label}</th>(.*?)</tr>', text)[1]
    return re.findall(r"<td[^>]*>(.*?)</td>", cells)


def test_the_strip_says_when_what_and_how_often(lab):
    text = strip(outcome(lab).evidence, "")
    for name, said in (
        ("measured", "2026-12-02"),
        ("commit", "0123456789ab"),
        ("driver", "580.95"),
        ("torch", "2.11.0"),
        ("triton", "3.6.0"),
        ("runs", "6"),
    ):
        assert f"<div><dt>{name}</dt><dd>{said}</dd></div>" in text
    link = "../artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    assert re.search(rf'<a href="{re.escape(link)}">nvidia-h200</a> \d KiB', text)
    assert "CUDA" not in text


def test_the_strip_lists_what_differs_between_devices_once_each(lab):
    publish_b200(lab, timed(batch=31), recorded="2026-12-03T10:15:00Z")
    text = strip(outcome(lab).evidence, "")
    assert "<dd>2026-12-02, 2026-12-03</dd>" in text
    assert "<dd>2.11.0</dd>" in text
    assert text.count(" KiB") == 2


def test_the_commit_leads_to_the_repository_where_one_is_known(lab):
    text = strip(outcome(lab).evidence, "https://git.example/w/")
    assert '<a href="https://git.example/w/commit/0123456789abcdef">0123456789ab</a>' in text


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("GPU", "NVIDIA H200"),
        ("Compute capability", "9.0"),
        ("Multiprocessors", "132"),
        ("SM clock", "1905–1980 MHz, before and after"),
        ("Temperature", "40–44 °C, before and after"),
        ("Power", "not stated"),
        ("Driver", "580.95"),
        ("torch", "2.11.0"),
        ("Variables", "none set"),
        ("Runs", "6 fresh processes"),
        ("Timer", "filled queue"),
        ("Cache", "cold (128 MiB read before each cold call)"),
        ("Protocol", "version 1, harness 0123456789ab"),
        ("Disturbed by", "nothing seen"),
        ("Commit", "0123456789ab"),
    ],
)
def test_the_environment_says_where_and_how(lab, label, said):
    harness = "sha256:0123456789abcdef"
    protocol = msgspec.structs.replace(record_of(lab.artifact(), []).protocol, harness=harness)
    publish_later(lab, timed(batch=31), protocol=protocol)
    assert fact(lab, label) == [said]


def test_clocks_that_were_read_while_busy_are_the_ones_shown(lab):
    plain = record_of(lab.artifact(), []).environment
    clocks = [{"sm_mhz": 345}, {"sm_mhz_least": 1800, "sm_mhz_most": 1980, "slowed": ["power cap"]}]
    publish_later(lab, timed(batch=31), environment=msgspec.structs.replace(plain, clocks=clocks))
    assert fact(lab, "SM clock") == ["1800–1980 MHz, while busy"]
    assert fact(lab, "Slowed by") == ["power cap"]


def test_what_is_the_same_on_every_device_spans_the_row(lab):
    publish_b200(lab)
    text = environment(outcome(lab))
    assert '<th scope="row">torch</th><td colspan="2">2.11.0</td>' in text
    assert '<th scope="row">Multiprocessors</th><td>132</td><td>148</td>' in text
    assert '<th scope="rowgroup" colspan="3">Software</th>' in text


def test_what_no_device_states_of_its_gpu_has_no_row(lab):
    assert "ECC" not in environment(outcome(lab))


def test_the_seal_is_the_records(lab):
    (seal,) = fact(lab, "Seal")
    file = next((lab.root / "artifacts/row-sum/records/nvidia-h200").glob("*.json"))
    assert f'"sha256:{seal}' in file.read_text()


def test_every_record_is_listed_with_its_size_newest_first(lab):
    (lab.root / "artifacts/row-sum/kernel.py").write_text("def total(values): ...\n")
    artifact = next(lab.repository.artifacts().__iter__())
    lab.publish(artifact, timed(batch=31), recorded="2026-12-03T10:15:00Z")
    (cell,) = fact(lab, "Every record, newest first")
    newer, older = re.findall(r"<li>(.*?)</li>", cell)
    assert re.search(
        r'2026-12-03 10:15</a> <span class="wl-about">\d KiB, shown here</span>', newer
    )
    assert re.search(
        r'2026-12-02 10:15</a> <span class="wl-about">\d KiB, other source</span>', older
    )


def test_a_record_without_a_gpu_or_a_commit_stands_for_nothing(tmp_path):
    lab = Lab(tmp_path / "lab")
    artifact = lab.artifact()
    plain = record_of(artifact, [])
    environment = msgspec.structs.replace(
        plain.environment, gpu=None, driver=None, clocks=[], packages={}
    )
    source = msgspec.structs.replace(plain.source, commit=None, modified=None)
    rows = [measured("error", "kernel", [0.0] * 6, unit="fraction", batch=2)]
    lab.publish(artifact, rows, device="cpu", environment=environment, source=source)
    lab.entry(FRONT.replace("claims:\n", "claims: {}\n").partition("  fast")[0], "\nNone.\n")
    assert fact(lab, "GPU") == ["none: correctness only"]
    assert fact(lab, "Cache") == ["nothing was timed"]
    for label in ("Commit", "Driver", "CUDA", "torch", "SM clock"):
        assert fact(lab, label) == ["not stated"]
    text = strip(outcome(lab).evidence, "https://git.example/w")
    assert "commit" not in text
    assert "driver" not in text


@pytest.mark.parametrize(
    ("modified", "words"),
    [(True, " (the artifact was modified)"), (False, ""), (None, " (as stated)")],
)
def test_a_commit_says_how_it_is_known(lab, modified, words):
    source = msgspec.structs.replace(record_of(lab.artifact(), []).source, modified=modified)
    publish_later(lab, timed(batch=31), source=source)
    assert fact(lab, "Commit") == [f"0123456789ab{words}"]


def test_the_command_says_how_long_it_takes_and_what_it_does_without_a_gpu(lab):
    text = shown(lab)
    assert "<code>.venv/bin/nox -s reproduce -- one-sum</code>" in text
    assert "It takes about 83 seconds on one NVIDIA H200, in 6 fresh processes." in text
    assert "Without a GPU the same command checks" in text


def test_a_command_that_nobody_ran_yet_promises_no_time(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.artifact()
    lab.entry()
    text = shown(lab)
    assert ".venv/bin/nox -s reproduce -- one-sum" in text
    assert "It takes about" not in text


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "a second"), (83.1, "83 seconds"), (600, "10 minutes")]
)
def test_a_reproduction_takes_as_long_as_a_person_would_say(seconds, words):
    assert duration(seconds) == words


def test_a_gpu_without_a_name_is_called_as_its_folder(lab):
    publish_b200(lab, environment=on(lab.artifact(), B200 | {"name": " "}))
    assert fact(lab, "GPU") == ["NVIDIA H200", "nvidia-b200"]
