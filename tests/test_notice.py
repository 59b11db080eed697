"""What a reader must know before the numbers is said in words, each where it belongs."""

import re

import pytest
from factory import FRONT, Lab, lab_with_entry, timed
from pages import B200, outcome, publish_b200, publish_later, row, shown, slow
from shelf import journal, shelf, write_entry, write_record

from warplog import evidence, notice
from warplog.history import disputes, pasts
from warplog.notice import caveats, notices


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def said(lab):
    """The notices of the page, without markup."""
    found = outcome(lab)
    text = notices(found, disputes(pasts(found)))
    assert text.count("<div") == text.count('role="note"')
    return re.sub(r"<[^>]*>", "", text.replace("</div>", "\n"))


def test_a_sound_record_needs_no_notice(lab):
    assert said(lab) == ""


def test_a_page_without_any_record_says_so(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.artifact()
    lab.entry()
    words = "Not measured. Nothing was measured on nvidia-h200 yet, nor on any other GPU, so every"
    assert words in said(lab)


def test_a_page_that_only_others_measured_says_so(tmp_path):
    lab = Lab(tmp_path / "lab")
    publish_b200(lab)
    lab.entry()
    assert "Nothing was measured on nvidia-h200 yet, so every claim is untested there." in said(lab)


def test_a_stale_record_names_the_files_that_changed(lab):
    (lab.root / "artifacts/row-sum/kernel.py").write_text("def total(values): ...\n")
    assert (
        "Stale. kernel.py changed since NVIDIA H200 was measured (2026-12-02 10:15 UTC), so none of "
        "its numbers is shown as current."
    ) in said(lab)


def test_many_files_are_counted(lab):
    for number in range(8):
        (lab.root / f"artifacts/row-sum/more_{number}.py").write_text("pass\n")
    assert "Stale. more_0.py, " in said(lab)
    assert "more_5.py and 2 more were added since NVIDIA H200" in said(lab)


def test_a_file_that_was_removed_or_added_is_not_said_to_have_changed(lab):
    artifact = lab.root / "artifacts/row-sum"
    (artifact / "extra.txt").write_text("a note\n")
    publish_later(lab, timed(batch=31))
    (artifact / "extra.txt").unlink()
    (artifact / "kernel.py").write_text("def total(values): ...\n")
    (artifact / "more.py").write_text("pass\n")
    words = "kernel.py changed, more.py was added and extra.txt was removed"
    assert f"Stale. {words} since" in said(lab)
    assert caveats(outcome(lab).own) == [f"stale: {words}"]


def test_a_disturbed_record_says_by_what_and_on_which_device(lab):
    publish_b200(lab, timed(batch=31), disturbed=["thermal slowdown", "another process"])
    assert (
        "Disturbed. While NVIDIA B200 was measured (2026-12-02 10:15 UTC): thermal slowdown, another "
        "process."
    ) in said(lab)


def test_a_record_of_an_older_protocol_says_so(lab, monkeypatch):
    monkeypatch.setattr(evidence, "PROTOCOL", 2)
    monkeypatch.setattr(notice, "PROTOCOL", 2)
    assert (
        "Older protocol. NVIDIA H200 was measured (2026-12-02 10:15 UTC) by version 1 of the protocol; "
        "version 2 could give other numbers."
    ) in said(lab)
    assert '<div class="wl-about">older protocol</div>' in shown(lab)


def test_records_of_one_device_that_contradict_each_other_are_named(lab):
    publish_later(lab, slow(batch=31))
    assert (
        "Disputed. One claim has records of this very source with opposite verdicts."
        "fast: supported by H200, 2026-12-02 10:15; refuted by H200, 2026-12-03 10:15"
    ) in said(lab)
    assert "disputed between records" in row(shown(lab), "fast")


def test_devices_that_contradict_each_other_are_named(lab):
    publish_b200(lab)
    assert "fast: supported by H200, 2026-12-02 10:15; refuted by B200, 2026-12-02 10:15" in said(
        lab
    )


@pytest.mark.parametrize("times", [10.0, 11.9])
def test_records_that_agree_dispute_nothing(lab, times):
    publish_later(lab, slow(times, batch=31))
    publish_b200(lab, timed(batch=31))
    assert "Disputed" not in said(lab)
    assert "disputed" not in shown(lab)


def test_a_record_of_other_source_disputes_nothing(lab):
    publish_later(lab, slow(batch=31))
    artifact = lab.artifact(kernel="def total(values): ...\n")
    lab.publish(artifact, timed(batch=31), recorded="2026-12-04T10:15:00Z")
    assert "Disputed" not in said(lab)


def test_many_disputed_claims_are_folded(lab):
    publish_later(lab, slow(batch=31))
    claim = FRONT.partition("claims:\n")[2].partition("values:")[0]
    more = "".join(claim.replace("fast", f"fast-{n}") for n in range(3))
    lab.entry(FRONT.replace("values:", more + "values:"))
    text = shown(lab)
    assert "4 claims have records of this very source" in text
    assert text.index("<summary>Which</summary>") < text.index(
        '<a href="#fast-2">fast-2</a>: supported'
    )


def test_what_a_reader_must_know_of_a_device_is_said_in_words(tmp_path, monkeypatch):
    lab = shelf(tmp_path)
    write_record(lab, "fourth", B200, disturbed=["run 1: thermal slowdown"])
    write_entry(lab, "fourth", device="nvidia-b200")
    fourth, third, *_ = journal(lab).outcomes
    assert caveats(fourth.own) == ["disturbed"]
    assert caveats(third.own) == ["no record yet"]
    assert caveats(third.columns[1]) == ["stale: kernel.py changed"]
    monkeypatch.setattr(evidence, "PROTOCOL", 2)
    assert caveats(fourth.own) == ["disturbed", "older protocol"]
    assert caveats(third.columns[1]) == ["stale: kernel.py changed", "older protocol"]
