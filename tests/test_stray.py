"""Entries and records that lie where nothing reads them are named, with the place where they belong."""

import shutil

import pytest
from factory import lab_with_entry

from warplog.check import check
from warplog.stray import stray

NAME = "2026-12-02-one-sum.md"
RECORD = "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def said(lab):
    return [str(fault) for fault in stray(lab.repository)]


def put(lab, source, target):
    (lab.root / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(lab.root / source, lab.root / target)


def test_what_is_in_its_place_is_no_stray(lab):
    for name in ("README.md", "artifacts/row-sum/notes.md", "artifacts/row-sum/sizes.json"):
        (lab.root / name).write_text('{"artifact": 1}')
    assert said(lab) == []


@pytest.mark.parametrize(
    "place",
    [
        "entries/sub/2026-12-02-two.md",
        "entries/2026-12-02-two.MD",
        "entries/2026-12-02-two.markdown",
        "2026-12-02-two.md",
        "artifacts/row-sum/2026-12-02-two.md",
        "artifacts/2026-12-02-two.md",
    ],
)
def test_an_entry_elsewhere_is_named_with_its_place(lab, place):
    put(lab, f"entries/{NAME}", place)
    (fault,) = said(lab)
    assert fault.startswith(f"{place}: ")
    assert "move it to entries/2026-12-02-two.md" in fault
    assert fault in map(str, check(lab.repository))


@pytest.mark.parametrize(
    "place",
    ["artifacts/row-sum/2026-12-02T101500Z.json", "artifacts/row-sum/old/a.json", "artifacts/b.json",
     "entries/b.json"],
)  # fmt: skip
def test_a_record_elsewhere_is_named_with_its_place(lab, place):
    put(lab, RECORD, place)
    assert said(lab) == [f"{place}: is a record, and is read as none here; move it to {RECORD}"]


def test_a_file_that_was_added_is_not_said_to_have_changed(lab):
    """A measurement would not mend it: the file is to be taken out."""
    (lab.root / "artifacts/row-sum/notes.txt").write_text("a note\n")
    (fault,) = [str(fault) for fault in check(lab.repository) if "stale" in str(fault)]
    assert "stale: notes.txt was added since it was measured; take out what is no part" in fault
    (lab.root / "artifacts/row-sum/kernel.py").write_text("total = sum\n")
    (fault,) = [str(fault) for fault in check(lab.repository) if "stale" in str(fault)]
    assert "stale: kernel.py changed and notes.txt was added since it was measured; run" in fault
