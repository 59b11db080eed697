"""What the copy button of a source block puts on the clipboard is what the file holds."""

import pytest

from warplog.block import SourceBlock, excerpt
from warplog.entry import load_all
from warplog.source import Repository

from .conftest import ROOT
from .laboratory import KERNEL, REGIONS

pytestmark = pytest.mark.browser

CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def copied(page):
    """What each copy button of the page's source blocks copies, in order."""
    texts = []
    blocks = page.locator("figure.wl-listing")
    for index in range(blocks.count()):
        block = blocks.nth(index)
        block.scroll_into_view_if_needed()
        block.hover()
        page.evaluate("() => navigator.clipboard.writeText('nothing was copied')")
        block.locator("button[data-md-type=copy], button.md-clipboard").first.click()
        page.wait_for_function(
            "async () => (await navigator.clipboard.readText()) !== 'nothing was copied'"
        )
        texts.append(page.evaluate("() => navigator.clipboard.readText()"))
    return texts


def test_the_copy_button_copies_the_lines_of_the_region(opened, lab_url):
    found = copied(opened(lab_url + "entries/plain.html", **CLIPBOARD))
    assert [each.rstrip("\n") for each in found] == [each.rstrip("\n") for each in REGIONS.values()]


def test_the_copy_button_copies_what_the_files_of_the_journal_hold(opened, journal_url):
    repository = Repository(ROOT)
    entries, _ = load_all(repository)
    seen = 0
    for entry in (each for each in entries if not each.draft):
        blocks = [each.block for each in entry.body.blocks if isinstance(each.block, SourceBlock)]
        artifact = repository.artifact(entry.artifact)
        wanted = [excerpt(block, artifact).text.rstrip("\n") for block in blocks]
        page = opened(f"{journal_url}entries/{entry.slug}.html", **CLIPBOARD)
        found = [each.rstrip("\n") for each in copied(page)]
        assert [each for each in found if each in wanted] == wanted, entry.slug
        seen += len(wanted)
    assert seen


def test_a_selection_of_lines_holds_the_code_alone(opened, lab_url):
    page = opened(lab_url + "entries/plain.html")
    text = page.locator("figure.wl-listing pre code").first.evaluate(
        "each => { getSelection().selectAllChildren(each); return getSelection().toString(); }"
    )
    assert text.rstrip("\n") == REGIONS["ring"].rstrip("\n")


def test_line_numbers_are_those_of_the_file(opened, lab_url):
    """The number beside the region's first line is that of the line in the file."""
    page = opened(lab_url + "entries/plain.html")
    numbers = page.locator("figure.wl-listing").first.locator("[data-line]")
    first = int(numbers.first.get_attribute("data-line"))
    lines = KERNEL.split("\n")
    assert lines[first - 1] == REGIONS["ring"].split("\n")[0]
    assert numbers.count() == len(REGIONS["ring"].rstrip("\n").split("\n"))
