"""What the search knows of an entry: words, names in code, GPUs and claims, and no tables."""

import re

import pytest
from factory import BODY, FRONT, lab_with_entry
from markdown import Markdown

from warplog.evidence import Archive
from warplog.finder import NAMES_IN_BRIEF, WORDS_OF_A_SECTION, reduced
from warplog.journal import read_journal
from warplog.page import write

SETTINGS = {"toc": {"permalink": True}}
EXTENSIONS = ["toc", "tables", "attr_list", "pymdownx.superfences"]


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def searched(lab, body=BODY, front=FRONT, *, brief=False):
    """The reduced copy of the entry with this text, rendered as the site does it."""
    lab.entry(front, body)
    journal, faults = read_journal(Archive(lab.repository))
    assert not faults
    page = write(journal.outcomes[0])
    html = Markdown(extensions=EXTENSIONS, extension_configs=SETTINGS).convert(page.markdown)
    return reduced(html, page, journal.outcomes[0], brief=brief)


def section(copy, anchor):
    """What stands under a heading."""
    return re.split("<h2 id=", copy.partition(f'<h2 id="{anchor}">')[2])[0]


def words(copy):
    return re.sub("<[^>]*>", " ", copy).split()


def test_summary_and_gpus_come_first(lab):
    opening = searched(lab).partition("<h2")[0]
    assert "One sentence for the index." in opening
    assert "NVIDIA H200" in opening
    assert "row-sum" in opening


def test_a_claim_is_found_in_the_section_of_claims(lab):
    assert "at least ten times faster" in section(searched(lab), "claims")


def test_prose_keeps_its_section_and_its_measured_numbers(lab):
    copy = searched(lab, "\n## How fast\n\nWe ask of [?](#fast) and [?](#time).\n")
    assert section(copy, "how-fast").endswith("<p>We ask of 12× and 10.0 µs.</p>")


def test_a_name_in_backticks_is_found_by_its_parts_where_it_stands(lab):
    copy = searched(lab, "\n## One\n\nSee `cp.async`.\n\n## Two\n\nSee `_STERound`.\n")
    assert {"cp.async", "cp", "async"} <= set(words(section(copy, "one")))
    assert {"_STERound", "STERound", "STE", "Round"} <= set(words(section(copy, "two")))


def test_a_name_in_a_listing_is_found_in_the_section_that_shows_it(lab):
    body = "\n## The code\n\n```source\nfile: kernel.py\nregion: kernel\n```\n\n[?](#fast)\n"
    lab.artifact(kernel="# region: kernel\ntl.load(num_stages)\n# endregion\n")
    assert {"tl.load", "num_stages", "stages"} <= set(
        words(section(searched(lab, body), "the-code"))
    )


def test_a_name_in_a_fence_is_found_and_the_fence_is_not_shown(lab):
    copy = searched(lab, "\n## Fence\n\n```\nwait_group(0) = 3;\n```\n")
    assert {"wait_group", "wait", "group"} <= set(words(section(copy, "fence")))
    assert "= 3;" not in copy


def test_a_name_is_listed_once_on_a_page(lab):
    copy = searched(lab, "\n## One\n\nSee `tl.load`.\n\n## Two\n\nSee `tl.load`.\n")
    assert section(copy, "one").count("tl.load") == 2  # the sentence and the list
    assert section(copy, "two").count("tl.load") == 1


def test_tables_environment_and_listings_as_such_are_left_out(lab):
    copy = searched(lab, "\n## Table\n\n| size | time |\n| --- | --- |\n| 4096 | 77 |\n\nProse.\n")
    assert "77" not in words(copy)
    assert "580.95" not in copy
    assert "triton 3.6.0" not in copy
    assert "return values.sum()" not in copy


def test_an_empty_section_of_ours_is_no_result(lab):
    assert 'id="provenance"' not in searched(lab)
    assert 'id="story"' in searched(lab, "\n## Story\n\n### Part\n\nText.\n")


def test_a_large_journal_keeps_the_first_words_of_a_section_and_all_its_names(lab):
    prose = " ".join(f"word{number}." for number in range(100))
    copy = searched(lab, f"\n## Long\n\n{prose}\n\nThen `late_name`.\n", brief=True)
    assert f"word{WORDS_OF_A_SECTION - 1}." in copy
    assert f"word{WORDS_OF_A_SECTION}." not in copy
    assert "late_name" in copy


def test_a_large_journal_keeps_so_many_names_of_a_page(lab):
    names = " ".join(f"`name{number}`" for number in range(1000))
    found = words(searched(lab, f"\n## Names\n\n{names}\n", brief=True))
    assert f"name{NAMES_IN_BRIEF - 1}" in found
    assert f"name{NAMES_IN_BRIEF}" not in found
    assert "name999" in words(searched(lab, f"\n## Names\n\n{names}\n"))


def test_no_token_and_no_permalink_stays(lab):
    copy = searched(lab, "\n## Asked\n\nIs [?](#fast) so?\n")
    assert not re.search(r"wl[0-9a-f]{16}", copy)
    assert "¶" not in copy


def test_only_headings_and_paragraphs_reach_the_index(lab):
    copy = searched(
        lab, '\n## A <b>b</b>\n\nx &lt;script&gt; <em>y</em> a < b ![t>x](i.png "q>r")\n'
    )
    assert set(re.findall(r"</?([a-z0-9]+)", copy)) == {"h1", "h2", "p"}
    assert "&lt;script&gt;" in copy


def test_a_word_without_end_is_cut_wherever_it_stands(lab):
    long = "x" * 10_000
    front = FRONT.replace("One sum", long).replace("One sentence", long).replace("The kernel", long)
    assert max(map(len, words(searched(lab, f"\n## A {long}\n\n{long} `{long}`\n", front)))) <= 100
