"""What an author changes is read again, and nothing else."""

import pytest
from factory import BODY, FRONT, lab_with_entry, timed

from warplog import desk as desks
from warplog.cache import Cache
from warplog.desk import Desk

OTHER = FRONT.replace("row-sum", "another").replace("12-02", "12-09")


@pytest.fixture
def lab(tmp_path):
    lab = lab_with_entry(tmp_path / "lab")
    lab.publish(lab.artifact("another"), timed(batch=31))
    lab.entry(OTHER, name="2026-12-09-two.md")
    return lab


@pytest.fixture
def read(monkeypatch):
    """The names of the entries that were read, in order."""
    names = []
    outcome = desks.Workshop.outcome

    def noted(shop, path):
        names.append(path.name)
        return outcome(shop, path)

    monkeypatch.setattr(desks.Workshop, "outcome", noted)
    return names


@pytest.fixture
def desk(lab, read):
    desk = Desk()
    desk.open(lab.repository, Cache(None), "")
    desk.read()
    read.clear()
    return desk


def words(desk, slug="one-sum"):
    outcome = next(each for each in desk.journal.outcomes if each.entry.slug == slug)
    return outcome.entry.body.text


def test_an_edit_of_an_entry_is_taken_in_and_nothing_else_is_read(lab, desk, read):
    assert desk.take_in({lab.entry(body=BODY + "\nAn edit.\n")})
    assert "An edit." in words(desk)
    assert read == ["2026-12-02-one-sum.md"]


def test_an_edit_that_is_wrong_is_told_at_its_place_and_the_mended_one_is_shown(lab, desk):
    assert desk.take_in({lab.entry(body="\n[?](#ghost)\n")})
    assert "ghost" in str(desk.faults_at("entries/2026-12-02-one-sum.md"))
    assert desk.faults_at("entries/2026-12-09-two.md") == []
    assert desk.take_in({lab.entry(body=BODY + "\nMended.\n")})
    assert desk.faults == []
    assert "Mended." in words(desk)


def test_an_edit_of_the_kernel_reads_the_entries_about_it(lab, desk, read):
    lab.artifact(kernel="pass\n")
    assert desk.take_in({lab.root / "artifacts/row-sum/kernel.py"})
    assert read == ["2026-12-02-one-sum.md"]
    own = {each.entry.slug: each.own.evidence.fresh for each in desk.journal.outcomes}
    assert own == {"one-sum": False, "two": True}


def test_a_new_record_is_taken_in(lab, desk):
    artifact = lab.repository.artifact("row-sum")
    path = lab.publish(artifact, timed(batch=31), recorded="2026-12-03T10:15:00Z")
    assert desk.take_in({path})
    newest = next(each for each in desk.journal.outcomes if each.entry.slug == "one-sum")
    assert newest.own.evidence.record.recorded == "2026-12-03T10:15:00Z"


def test_a_broken_record_is_told_on_the_page_of_its_entry(lab, desk):
    path = next((lab.root / "artifacts/row-sum/records/nvidia-h200").iterdir())
    path.write_text("{", encoding="utf-8")
    assert desk.take_in({path})
    assert path.name in str(desk.faults_at("entries/2026-12-02-one-sum.md"))
    assert desk.faults_at("entries/2026-12-09-two.md") == []


@pytest.mark.parametrize(
    "change",
    [
        lambda lab: lab.entry(OTHER.replace("12-09", "12-10"), name="2026-12-10-new.md"),
        lambda lab: lab.root / "site_src/method.md",
        lambda lab: lab.root / "artifacts/shared/rows.py",
        lambda lab: lab.root / "artifacts/ceilings/kernel.py",
        lambda lab: lab.root / "artifacts/README.md",
        lambda lab: lab.root.parent / "elsewhere",
        lambda lab: lab.entry(FRONT + "draft: true\n"),
    ],
)
def test_what_changes_which_pages_there_are_needs_a_whole_build(lab, desk, change):
    assert not desk.take_in({change(lab)})


def test_an_entry_that_goes_needs_a_whole_build(lab, desk):
    path = lab.root / "entries/2026-12-09-two.md"
    path.unlink()
    assert not desk.take_in({path})


def test_a_whole_build_reads_everything_anew(lab, desk, read):
    desk.open(lab.repository, Cache(None), "")
    desk.read()
    assert read == ["2026-12-02-one-sum.md", "2026-12-09-two.md"]
