"""Walks entries/: each entry is right, its numbers are the record's, and its page can be written."""

from pathlib import Path

import pytest

from warplog.check import entry_faults
from warplog.entry import fill, load
from warplog.evidence import Archive
from warplog.journal import outcome_of
from warplog.page import write
from warplog.placeholder import substitute
from warplog.publication import crowded
from warplog.source import Repository

REPOSITORY = Repository(Path(__file__).parents[1])
ENTRIES = sorted((REPOSITORY.root / "entries").glob("*.md"))


@pytest.fixture(scope="module")
def archive():
    return Archive(REPOSITORY)


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_is_right(path, archive):
    """Before its artifact's first record there is nothing to test; afterwards all of it is."""
    entry = load(path, REPOSITORY, archive)
    known = archive.of(entry.artifact)
    if not known.devices and not known.faults:
        pytest.skip("the artifact has no record yet")
    assert [str(fault) for fault in known.faults] == []
    assert [str(fault) for fault in entry_faults(entry, archive)] == []


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_is_filled(path, archive):
    entry = load(path, REPOSITORY, archive)
    assert fill(entry, REPOSITORY, archive) == entry.body.text


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_the_page_of_an_entry_can_be_written(path, archive):
    entry = load(path, REPOSITORY, archive)
    page = write(outcome_of(entry, archive.of(entry.artifact)))
    assert not set(page.html) & set(substitute(page.markdown, page.html).split())


def test_only_list_items_and_tables_hold_several_sentences_a_line():
    prose = (
        "One. Two.\n\n- One. Two.\n  Three. Four.\n\n  Five. Six.\n\n| A. Bee. |\n\nWhy? We did.\n"
    )
    assert [line for _, line in crowded(prose)] == ["One. Two.", "Why? We did."]


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_has_one_sentence_a_line(path, archive):
    """So that a change to a sentence is a change to a line."""
    entry = load(path, REPOSITORY, archive)
    assert list(crowded(entry.body.prose, entry.body.start)) == []


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_the_readme_lists_an_entry_by_its_title_once_it_is_published(path, archive):
    entry = load(path, REPOSITORY, archive)
    link = f"| [{entry.title}](entries/{path.name}) | `{entry.artifact}` |"
    assert (link in (REPOSITORY.root / "README.md").read_text("utf-8")) is not entry.draft
