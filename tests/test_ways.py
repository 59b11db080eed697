"""The ways in say the same as the entries, and nothing that anyone wrote becomes markup."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from factory import H200, Lab
from shelf import CLAIMS, copies, golden, html, journal, shelf, write_entry, write_record

from warplog import catalogue, ways
from warplog.evidence import Archive
from warplog.journal import Journal, read_journal

HOME = (Path(__file__).parents[1] / "site_src/index.md").read_text(encoding="utf-8")


def text(markup):
    return re.sub(r"<[^>]+>", "", markup)


def test_one_sentence_of_numbers(tmp_path):
    assert text(ways.numbers(journal(shelf(tmp_path)))) == (
        "So far 3 entries and 6 claims: 3 supported, 1 refuted, none inconclusive and 2 untested, each on "
        "the GPU of its entry; measured on 3 kinds of GPU, B200, H200 and RTX 5090. "
        "What did not hold, and why."
    )


def test_untested_is_not_mentioned_where_nothing_is(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    write_entry(lab, "plain")
    said = text(ways.numbers(journal(lab)))
    assert "1 entry and 2 claims: 2 supported, none refuted and none inconclusive, each" in said
    assert "measured on one kind of GPU, H200." in said


def test_a_number_leads_to_what_it_counts(tmp_path):
    said = ways.numbers(journal(shelf(tmp_path)))
    assert '<a href="matrix.html?verdict=refuted">1 refuted</a>' in said
    assert '<a href="gpus/nvidia-b200.html">B200</a>' in said


def test_many_gpus_are_counted_and_not_named(tmp_path):
    lab = Lab(tmp_path)
    for number in range(5):
        write_record(lab, "plain", {"name": f"NVIDIA T{number}"})
    write_entry(lab, "plain")
    assert "measured on 5 kinds of GPU." in text(ways.numbers(journal(lab)))


def test_a_device_that_nobody_measured_is_not_counted(tmp_path):
    lab = Lab(tmp_path)
    lab.artifact("bare")
    write_entry(lab, "bare")
    assert "nothing was measured on a GPU yet" in ways.numbers(journal(lab))


def test_the_home_page_has_its_numbers_and_its_entries_where_the_markers_stand(tmp_path):
    page = ways.home(HOME, journal(shelf(tmp_path)))
    assert "<!--" not in page.markdown
    assert len(page.html) == 2
    assert re.findall(r'class="wl-title" href="entries/(\w+)\.html"', html(page)) == [
        "third",
        "second",
        "first",
    ]


def test_the_home_page_lists_the_newest_and_leads_to_the_rest(tmp_path):
    outcome = journal(shelf(tmp_path)).outcomes[-1]
    some = html(ways.home(HOME, copies(outcome, ways.NEWEST)))
    more = html(ways.home(HOME, copies(outcome, ways.NEWEST + 1)))
    assert "by year" not in some
    assert more.count('class="wl-item"') == ways.NEWEST
    assert f'<a href="archive.html">All {ways.NEWEST + 1} entries, by year</a>' in more


def test_an_item_says_what_came_of_it_on_each_gpu(tmp_path):
    page = html(ways.home(HOME, journal(shelf(tmp_path))))
    third, second, first = page.split('<li class="wl-item">')[1:]
    assert "mixed" in first
    assert "1 supported, 1 refuted" in first
    assert "2 claims; disturbed" in second
    assert "no record yet" in third
    assert "stale: kernel.py changed" in third


def test_a_draft_is_marked_in_each_list(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    write_entry(lab, "plain", draft=True)
    drafts, _ = read_journal(Archive(lab.repository), drafts=True)
    item, line = catalogue.full_item(drafts.outcomes[0]), catalogue.lines(drafts.outcomes)
    assert ">draft</span> <a" in item
    assert "<i>draft</i>" in line
    assert "draft" not in html(ways.home(HOME, journal(shelf(tmp_path / "shelf"))))


def test_a_long_sentence_of_an_author_is_shown_whole(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    summary, said = "A word. " * 40, "A claim, " * 40
    claims = {name: {**claim, "says": said + name} for name, claim in CLAIMS.items()}
    claims["fast"]["at_least"] = 1000
    write_entry(lab, "plain", summary=summary + "End.", claims=claims)
    every = journal(lab)
    assert summary + "End." in html(ways.home(HOME, every))
    pages = [page for page in ways.pages(every).values() if "A claim, " in html(page)]
    assert len(pages) >= 2
    assert not [page for page in pages if "left out" in html(page)]


def test_a_tag_leads_to_the_entries_that_share_it(tmp_path):
    page = html(ways.home(HOME, journal(shelf(tmp_path))))
    assert '<a href="tags.html#c-f1deb7">C++</a>' in page


def test_an_entry_on_many_gpus_shows_some_and_leads_to_the_others(tmp_path):
    lab = Lab(tmp_path)
    for number in range(7):
        write_record(lab, "plain", {"name": f"NVIDIA T{number}"}, device=f"t{number}")
    write_entry(lab, "plain", device="t0")
    page = html(ways.home(HOME, journal(lab)))
    assert page.count("wl-side") == 1 + 5
    assert '<a href="entries/plain.html#claims">and 2 more</a>' in page


def test_an_empty_journal_says_so():
    page = html(ways.home(HOME, Journal(())))
    assert "Nothing is published yet." in page
    assert "No entry yet." in page


def test_every_way_in_is_a_page(tmp_path):
    assert set(ways.pages(journal(shelf(tmp_path)))) == {
        "matrix.md",
        "did-not-hold.md",
        "archive.md",
        "tags.md",
        "gpus.md",
        "gpus/nvidia-b200.md",
        "gpus/nvidia-h200.md",
        "gpus/nvidia-rtx-5090.md",
    }


def tagged(root, *tags):
    """A journal whose newest entry has the first tags, and so on."""
    lab = Lab(root)
    for number, own in enumerate(tags):
        write_record(lab, f"e{number}")
        write_entry(lab, f"e{number}", f"2026-01-{20 - number:02}", tags=own)
    return journal(lab)


def read_on(found, number):
    said = ways.related(found.outcomes[number], found)
    return re.findall(r'href="\.\./entries/(\w+)\.html"', said)


def test_read_on_leads_to_what_shares_most_tags_newest_first(tmp_path):
    found = tagged(tmp_path, ["a"], ["a", "b"], ["a"], ["a", "b"], ["c"])
    assert read_on(found, 3) == ["e1", "e0", "e2"]


def test_read_on_is_not_about_the_entry_itself(tmp_path):
    found = tagged(tmp_path, ["a", "a"], ["a"], ["b"])
    assert read_on(found, 0) == ["e1"]
    assert ways.related(found.outcomes[2], found) == ""


def test_read_on_looks_at_a_bounded_number_of_entries(tmp_path):
    found = copies(journal(shelf(tmp_path)).outcomes[-1], 300)
    said = ways.related(found.outcomes[-1], found)
    assert re.findall(r"entries/(copy-\d+)", said) == ["copy-0", "copy-1", "copy-2"]
    found.tags["sums"] = Refusing(found.tags["sums"])
    ways.related(found.outcomes[0], found)


class Refusing(list):
    """A list that is not walked to its end."""

    def __getitem__(self, index):
        assert isinstance(index, slice)
        assert index.stop <= 200
        return list.__getitem__(self, index)

    def __iter__(self):
        raise AssertionError


HOSTILE = "\"><img src=x onerror=alert(1)>'&\u202e\x1b[31m" + "x" * 3000


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attrs):
        """Keep a tag with the names of its attributes."""
        self.found |= {tag, *(f"@{name}" for name, _ in attrs)}


@pytest.fixture
def hostile(tmp_path):
    """A journal in which every field that takes any text is hostile."""
    lab = Lab(tmp_path)
    claim = CLAIMS["fast"] | {
        "says": HOSTILE.replace("\x1b", ""),
        "at_least": 1000,
        "cause": HOSTILE.replace("\x1b", ""),
        "reported": {"value": "<b>32</b>", "device": "<i>", "by": "<u>", "url": 'https://x/"><s>'},
    }
    plain = "\"&' 🚀 " + "y" * 3000
    own = {key: value for key, value in claim.items() if key != "reported"}
    gpu = H200 | {"name": HOSTILE, "ecc": "<b>", "compute_capability": "<i>"}
    write_record(lab, "plain", gpu, device="nvidia-h200", disturbed=["<b>run</b>"])
    about = {"title": plain, "summary": plain, "tags": [plain, '"&']}
    write_entry(lab, "plain", claims={"theirs": claim, "ours": own}, **about)
    write_record(lab, "other")
    write_entry(lab, "other", tags=['"&'])
    return journal(lab)


def test_nothing_that_anyone_wrote_becomes_markup(hostile):
    pages = [*ways.pages(hostile).values(), ways.home(HOME, hostile)]
    related = [ways.related(each, hostile) for each in hostile.outcomes]
    for page in [*map(html, pages), *related]:
        tags = Tags()
        tags.feed(page)
        assert not tags.found & {"img", "b", "u", "s", "@onerror", "@x"}
        assert not set(page) & {"\x1b", "\u202e"}
        assert "onerror" not in page or "&lt;img src=x onerror=alert(1)&gt;" in page


def test_the_title_of_a_hostile_gpu_closes_no_tag(hostile):
    front = ways.pages(hostile)["gpus/nvidia-h200.md"].markdown
    assert not set(front.partition("hide:")[0]) & set("<>\x1b")


def test_the_home_page_is_as_it_was(tmp_path):
    page = ways.home(HOME, journal(shelf(tmp_path)))
    golden("home", html(page))


def test_read_on_is_as_it_was(tmp_path):
    found = journal(shelf(tmp_path))
    golden("read-on", ways.related(found.outcomes[0], found))
