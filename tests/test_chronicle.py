"""The archive and the tags are whole, an entry a line."""

import re

from factory import Lab
from shelf import copies, golden, html, journal, shelf, write_entry, write_record

from warplog import chronicle
from warplog.journal import Journal


def test_the_archive_goes_by_year_newest_first(tmp_path):
    page = html(chronicle.archive(journal(shelf(tmp_path))))
    order = re.findall(r'<h2 id="y(\d+)"|entries/(\w+)\.html', page)
    assert order == [("2026", ""), ("", "third"), ("", "second"), ("2025", ""), ("", "first")]
    assert '<a href="#y2026">2026</a> <span>2</span>' in page


def test_a_line_names_the_gpus_of_each_verdict_once(tmp_path):
    page = html(chronicle.archive(journal(shelf(tmp_path))))
    line = page.partition("entries/first.html")[2].partition("</li>")[0]
    assert "</span> H200</span>" in line
    assert "</span> B200</span>" in line
    (third,) = journal(shelf(tmp_path / "other")).outcomes[:1]
    assert "H200 <i>stale</i>" in html(chronicle.archive(copies(third, 1)))


def test_gpus_that_agree_share_a_glyph(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    write_record(lab, "plain", {"name": "NVIDIA B200"})
    write_entry(lab, "plain")
    assert "</span> H200, B200</span>" in html(chronicle.archive(journal(lab)))


def test_tags_that_slugify_alike_have_sections_of_their_own(tmp_path):
    page = html(chronicle.tags(journal(shelf(tmp_path))))
    ids = re.findall(r'<h2 id="([^"]+)"', page)
    assert ids == ["c-6b23c0", "c-f1deb7", "sums", "triton"]


def test_every_entry_stands_under_each_of_its_tags(tmp_path):
    page = html(chronicle.tags(journal(shelf(tmp_path))))
    sums = page.partition('<h2 id="sums"')[2].partition("<h2")[0]
    assert re.findall(r"entries/(\w+)\.html", sums) == ["third", "first"]


def test_a_tag_given_twice_lists_its_entry_once(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    write_entry(lab, "plain", tags=["sums", "sums"])
    assert html(chronicle.tags(journal(lab))).count("entries/plain.html") == 1


def test_a_thousand_entries_stay_below_a_megabyte(tmp_path):
    outcome = journal(shelf(tmp_path)).outcomes[-1]
    many = copies(outcome, 1000)
    assert len(html(chronicle.archive(many))) < 500_000
    assert len(html(chronicle.tags(many))) < 500_000 * len(outcome.entry.tags)


def test_without_an_entry_both_say_so():
    for page in (chronicle.archive(Journal(())), chronicle.tags(Journal(()))):
        assert "No entry yet" in html(page)


def test_both_are_as_they_were(tmp_path):
    found = journal(shelf(tmp_path))
    golden("archive", html(chronicle.archive(found)))
    golden("tags", html(chronicle.tags(found)))
