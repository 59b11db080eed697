"""Walks entries/: each entry is right, its numbers are the record's, and its page can be written."""

import re
from pathlib import Path

import pytest

from warplog.check import entry_faults
from warplog.entry import fill, load
from warplog.evidence import Archive
from warplog.page import substitute, write
from warplog.source import Repository

REPOSITORY = Repository(Path(__file__).parents[1])
ENTRIES = sorted((REPOSITORY.root / "entries").glob("*.md"))


@pytest.fixture(scope="module")
def archive():
    return Archive(REPOSITORY)


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_is_right(path, archive):
    entry = load(path, REPOSITORY, archive)
    assert [str(fault) for fault in entry_faults(entry, archive)] == []


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_is_filled(path, archive):
    entry = load(path, REPOSITORY, archive)
    assert fill(entry, REPOSITORY, archive) == entry.body.text


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_the_page_of_an_entry_can_be_written(path, archive):
    entry = load(path, REPOSITORY, archive)
    page = write(entry, archive.of(entry.artifact))
    assert not set(page.html) & set(substitute(page.markdown, page.html).split())


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_has_one_sentence_a_line(path, archive):
    """So that a change to a sentence is a change to a line."""
    entry = load(path, REPOSITORY, archive)
    lines = entry.body.prose[entry.body.start :].splitlines()
    prose = [line for line in lines if not line.startswith("|")]
    assert [line for line in prose if re.search(r"\w[.?!] [A-Z]\w", line)] == []
