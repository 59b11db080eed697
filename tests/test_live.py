"""While the site is served, an edit shows on the page at hand, and a mistake is a page and not the end."""

import live
import pytest
import thousand

PATIENCE = 120


@pytest.fixture(scope="module")
def author(tmp_path_factory):
    """Someone who serves a journal of two entries."""
    live.PATIENCE = PATIENCE
    root = thousand.journal(tmp_path_factory.mktemp("live") / "journal", 2)
    with live.Author(root) as author:
        yield author


@pytest.fixture(scope="module")
def edits(author):
    return live.edits(author.root)


@pytest.mark.parametrize("name", live.EDITS)
def test_an_edit_shows_on_the_page_at_hand(author, edits, name):
    assert author.sees(*edits[name]) < PATIENCE


def test_the_new_record_itself_can_be_read(author, edits):
    path = edits["a new record"][1]
    assert "a kettle boiled" in author.look(path.relative_to(author.root).as_posix())


def test_the_lists_show_an_edit_too(author):
    path = max((author.root / "entries").glob("*.md"))
    text = path.read_text(encoding="utf-8").replace("title: ", "title: Kingfisher ")
    for address in ("index.html", "archive.html", "site.json"):
        changed = text.replace("Kingfisher", f"Kingfisher {address[:5]}")
        author.sees("index.html", path, changed, f"Kingfisher {address[:5]}")
        assert f"Kingfisher {address[:5]}" in author.look(address)


def test_settings_that_are_wrong_are_a_page_until_they_are_mended(author):
    path = author.root / "mkdocs.yml"
    text = path.read_text(encoding="utf-8")
    author.sees("index.html", path, text.replace("strict: true", "strict: [true"), "To be mended")
    author.sees("index.html", path, text, "wl-numbers")


def test_a_new_entry_has_its_page(author):
    path = max((author.root / "entries").glob("*.md"))
    text = path.read_text(encoding="utf-8").replace(
        f"date: '{path.name[:10]}'", "date: '2026-01-01'"
    )
    new = path.with_name("2026-01-01-quail.md")
    author.sees("index.html", new, text.replace("title: ", "title: Quail "), "Quail")
    assert "Quail" in author.look("entries/quail.html")
