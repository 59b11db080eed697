"""A digest of an entry changes with every file that its page is made from, and with no other."""

import pytest
from factory import FRONT, lab_with_entry, timed

from warplog.inputs import Contents, Inputs, artifact_of


@pytest.fixture
def lab(tmp_path):
    lab = lab_with_entry(tmp_path / "lab")
    lab.artifact("ceilings")
    lab.artifact("another")
    (lab.root / "artifacts/shared/rows.py").write_text("ROWS = 1\n")
    return lab


@pytest.fixture
def entry(lab):
    return lab.root / "entries/2026-12-02-one-sum.md"


CHANGES = {
    "the entry": lambda lab: lab.entry(body="\nOther words.\n"),
    "the kernel": lambda lab: lab.artifact(kernel="pass\n"),
    "a new file": lambda lab: lab.artifact(more="pass\n"),
    "a new record": lambda lab: lab.publish(
        lab.artifact(), timed(batch=31), recorded="2026-12-03T10:15:00Z"
    ),
    "a shared module": lambda lab: (lab.root / "artifacts/shared/rows.py").write_text("ROWS = 2\n"),
    "the ceilings": lambda lab: lab.artifact("ceilings", kernel="pass\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_any_input_changes_the_digest(lab, entry, change):
    contents = Contents()
    before = Inputs(lab.root, contents).of(entry)
    assert before is not None
    change(lab)
    assert Inputs(lab.root, contents).of(entry) != before
    assert Inputs(lab.root).of(entry) == Inputs(lab.root, contents).of(entry)


def test_what_belongs_to_another_artifact_changes_nothing(lab, entry):
    before = Inputs(lab.root).of(entry)
    lab.artifact("another", kernel="pass\n")
    lab.entry(FRONT.replace("row-sum", "another"), name="2026-12-03-two.md")
    (lab.root / "artifacts/row-sum/__pycache__").mkdir()
    (lab.root / "artifacts/row-sum/__pycache__/kernel.pyc").write_bytes(b"\0")
    assert Inputs(lab.root).of(entry) == before


def test_the_order_in_which_files_were_made_does_not_count(lab, entry):
    folder = lab.root / "artifacts/row-sum"
    before = Inputs(lab.root).of(entry)
    content = (folder / "kernel.py").read_bytes()
    (folder / "kernel.py").unlink()
    (folder / "kernel.py").write_bytes(content)
    assert Inputs(lab.root).of(entry) == before


@pytest.mark.parametrize(
    ("text", "artifact"),
    [
        ("---\nartifact: row-sum\n---\n", "row-sum"),
        ('---\nartifact: "row-sum"\r\n---\n', "row-sum"),
        ("---\ntitle: x\n---\n\nartifact: row-sum\n", None),
        ("---\nartifact: row-sum\nsummary: |\n  x\nartifact: other\n---\n", None),
        ("---\nartifact: ../../etc\n---\n", None),
        ("---\nartifact: [row-sum]\n---\n", None),
    ],
)
def test_a_glance_tells_the_artifact_or_that_it_cannot(tmp_path, text, artifact):
    (tmp_path / "x.md").write_text(text, newline="")
    assert artifact_of(tmp_path / "x.md") == artifact


def test_an_entry_that_cannot_be_read_has_no_digest(lab, entry):
    entry.write_bytes(b"---\nartifact: row-sum\n---\n\xff")
    assert Inputs(lab.root).of(entry) is None
    assert Inputs(lab.root).of(lab.root / "entries/none.md") is None
