"""What stands between a draft and publication is a note, and never a failed check."""

import factory
import msgspec
import pytest
from factory import FRONT, measured, timed
from typer.testing import CliRunner

from warplog import cli
from warplog.check import check
from warplog.entry import load_all
from warplog.evidence import Archive
from warplog.publication import disputes, notes

DRAFT = FRONT + "draft: true\n"
PLAIN = "\nNothing.\n"
REFUTED = "at_least: 20\n    reported: {value: 32.9, device: nvidia-b200, by: the post}"


@pytest.fixture
def lab(tmp_path, monkeypatch):
    made = factory.lab_with_entry(tmp_path / "lab")
    monkeypatch.chdir(made.root)
    return made


def noted(lab):
    archive = Archive(lab.repository)
    return [str(note) for note in notes(load_all(lab.repository, archive)[0], archive)]


def test_a_published_entry_has_no_notes(lab):
    assert noted(lab) == []


def test_a_draft_that_lacks_nothing_says_how_to_publish_it(lab):
    path = lab.entry(DRAFT, PLAIN)
    (note,) = noted(lab)
    assert note.startswith(f"{lab.line(path, 'draft: true')}: draft: nothing stands between it and")
    assert note.endswith("remove `draft: true` to publish it")


def test_a_refuted_report_without_a_cause(lab):
    path = lab.entry(DRAFT.replace("at_least: 10", REFUTED), PLAIN)
    (note,) = noted(lab)
    where = lab.line(path, "fast:")
    assert (
        note == f"{where}: draft: claim 'fast': refuted without a cause; add `cause:` with one line"
    )


def test_a_claim_whose_subject_failed(lab):
    failed = measured("latency", "kernel", None, failed="wrong", batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31)[1:], failed], recorded="2026-12-03T10:15:00Z")
    lab.entry(DRAFT, PLAIN)
    (note,) = noted(lab)
    assert "draft: claim 'fast': untested: 'kernel' failed: wrong" in note


def test_no_record_of_its_device_is_one_note(lab):
    lab.entry(DRAFT.replace("device: nvidia-h200", "device: nvidia-b200"), PLAIN)
    (note,) = noted(lab)
    assert "draft: no record of nvidia-b200, so its 1 claim is untested" in note
    assert "row-sum --publish` on nvidia-b200" in note


def test_a_stale_record_stops_no_draft(lab):
    lab.entry(DRAFT, PLAIN)
    lab.artifact(kernel="pass\n")
    assert check(lab.repository) == []
    (note,) = noted(lab)
    assert "draft: the record is stale: kernel.py changed since it was measured" in note


def test_a_stale_record_of_a_published_entry_is_a_fault_whatever_drafts_there_are(lab):
    lab.entry(body=PLAIN)
    lab.entry(DRAFT.replace("12-02", "12-09"), PLAIN, name="2026-12-09-two.md")
    lab.artifact(kernel="pass\n")
    assert [fault.problem for fault in check(lab.repository)] == [
        "the record is stale: kernel.py changed since it was measured"
    ]


@pytest.mark.parametrize("text", ["To write: all of it.", "- one\n\n  To write: more."])
def test_text_that_waits_for_the_author(lab, text):
    lab.entry(DRAFT, f"\n{text}\n")
    (note,) = noted(lab)
    assert "placeholder text left: 1 line begins with `To write:`" in note
    lab.entry(body=f"\n{text}\n")
    assert "placeholder text left" in str(check(lab.repository)[0])


def test_what_is_only_quoted_is_no_placeholder(lab):
    lab.entry(body="\nThe line `To write: x` waits.\n\n```\nTo write: y\n```\n")
    assert check(lab.repository) == []


def test_check_prints_the_notes_and_is_content(lab):
    lab.entry(DRAFT, "\nTo write: all.\n")
    result = CliRunner().invoke(cli.app, ["check"])
    assert result.exit_code == 0, result.output
    assert "note: entries/2026-12-02-one-sum.md:21: draft: placeholder text left" in result.output
    assert "0 entries, 0 claims: all as recorded; 1 in draft: see the notes" in result.output


def test_check_prints_the_notes_beside_faults(lab):
    lab.entry(DRAFT, "\nTo write: 33 µs.\n")
    result = CliRunner().invoke(cli.app, ["check"])
    assert result.exit_code == 1
    assert "placeholder text left" in result.output
    assert "'33 µs' stands on nothing" in str(result.exception)


def test_a_line_with_two_sentences_is_named_with_its_number(lab):
    """So that a change to a sentence is a change to a line."""
    path = lab.entry(FRONT, "\nOne.\n\nIt ran. We looked.\n\n- It ran. We looked.\n")
    (fault,) = map(str, check(lab.repository))
    assert fault.startswith(f"{lab.line(path, 'It ran.')}: more than one sentence in the line 'It ")
    assert fault.endswith("put each sentence on a line of its own")
    lab.entry(DRAFT, "\nIt ran. We looked.\n")
    assert list(check(lab.repository)) == []
    assert "draft: more than one sentence" in " ".join(noted(lab))


def test_a_record_of_another_device_that_disputes_a_claim_is_told(lab):
    """It is no fault: a refutation is a result."""
    slow = [msgspec.structs.replace(each, runs=[[1e-4]] * 6) for each in timed(batch=31)[:2]]
    path = lab.publish(lab.artifact(), slow, device="nvidia-l4")
    lab.entry(FRONT, PLAIN)
    place = path.relative_to(lab.root).as_posix()
    said = f"note: {place}: disputes 1 of 1 claims of entries/2026-12-02-one-sum.md: fast; its page"
    result = CliRunner().invoke(cli.app, ["check"])
    assert (result.exit_code, result.exception) == (0, None)
    assert said in result.output


def test_a_record_that_agrees_or_that_a_draft_is_told_of_disputes_nothing(lab):
    archive = Archive(lab.repository)
    lab.publish(lab.artifact(), timed(batch=31), device="nvidia-l4")
    assert list(disputes(load_all(lab.repository, archive)[0], archive)) == []
