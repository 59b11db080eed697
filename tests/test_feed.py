"""The feeds: what came of an entry, in whole addresses, without a request and without a build's date."""

import json

import feedparser
import msgspec
import pytest
from factory import FRONT, Lab, lab_with_entry, measured, record_of, timed
from pages import slow

from warplog import evidence, feed
from warplog.address import card_address
from warplog.evidence import Archive
from warplog.journal import read_journal
from warplog.site import Site

SITE = Site("Warplog", "A journal & more.", "https://log.example/sub/")
ENTRY = "https://log.example/sub/entries/one-sum.html"


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def journal_of(lab):
    return read_journal(Archive(lab.repository))[0]


def rss(lab, sizes=None):
    found = feedparser.parse(feed.rss(journal_of(lab), SITE, sizes or {}))
    assert not found.bozo
    return found


def json_feed(lab, sizes=None):
    return json.loads(feed.json_feed(journal_of(lab), SITE, sizes or {}))


def test_an_item_is_known_by_the_address_of_its_entry(lab):
    (item,) = rss(lab).entries
    assert (item.title, item.link, item.id) == ("One sum is enough", ENTRY, ENTRY)
    assert [tag.term for tag in item.tags] == ["pytorch", "sums"]
    assert item.published == "Wed, 02 Dec 2026 12:00:00 +0000"
    (other,) = json_feed(lab)["items"]
    assert (other["id"], other["url"], other["tags"]) == (ENTRY, ENTRY, ["pytorch", "sums"])
    assert other["date_published"] == "2026-12-02T12:00:00+00:00"


def test_an_item_tells_the_headline_and_the_verdicts_of_each_device(lab):
    (item,) = json_feed(lab)["items"]
    html = item["content_html"]
    assert "<p>One sentence for the index.</p>" in html
    assert "speedup of kernel over peer, batch=31" in html
    assert '<th scope="row">NVIDIA H200</th><td>12× (' in html
    assert "</td><td>1</td><td>0</td><td>0</td><td>0</td></tr>" in html
    assert rss(lab).entries[0].summary.startswith("<p>One sentence for the index.</p>")


def test_a_stale_record_shows_no_number(lab):
    lab.artifact(kernel="changed = True\n")
    html = json_feed(lab)["items"][0]["content_html"]
    assert "12×" not in html
    assert "stale" in html


def test_all_that_must_be_said_of_a_number_stands_beside_it(lab, monkeypatch):
    monkeypatch.setattr(evidence, "PROTOCOL", 2)
    changes = {"disturbed": ["a kettle boiled"], "recorded": "2026-12-03T10:15:00Z"}
    lab.publish(lab.repository.artifact("row-sum"), slow(batch=31), **changes)
    html = json_feed(lab)["items"][0]["content_html"]
    assert "<td>1× disturbed, older protocol, disputed</td>" in html


def test_an_interval_is_left_out_only_where_all_runs_are_equal(lab):
    artifact = lab.repository.artifact("row-sum")
    kernel = measured("latency", "kernel", [1e-5] * 6, batch=31)
    for day, last, shown in ((3, 1.234e-4, "12.3×"), (4, 1.2341e-4, "12.3× (12.3×)")):
        peer = measured("latency", "peer", [*[1.234e-4] * 5, last], batch=31)
        lab.publish(artifact, [kernel, peer], recorded=f"2026-12-0{day}T10:15:00Z")
        assert f"<td>{shown}</td>" in json_feed(lab)["items"][0]["content_html"]


def test_the_image_is_there_only_where_the_card_is(lab):
    assert "image" not in json_feed(lab)["items"][0]
    assert not rss(lab).entries[0].enclosures
    sizes = {card_address("one-sum"): 1234}
    card = "https://log.example/sub/assets/cards/one-sum.png"
    assert json_feed(lab, sizes)["items"][0]["image"] == card
    (enclosure,) = rss(lab, sizes).entries[0].enclosures
    assert (enclosure.href, enclosure.type, enclosure.length) == (card, "image/png", "1234")


def test_the_feed_says_where_it_is_and_when_its_newest_entry_is_from(lab):
    found = rss(lab).feed
    assert (found.title, found.subtitle) == ("Warplog", "A journal & more.")
    assert found.updated == "Wed, 02 Dec 2026 12:00:00 +0000"
    links = [link.href for link in found.links if link.rel == "self"]
    assert links == ["https://log.example/sub/feed_rss_created.xml"]
    assert json_feed(lab)["feed_url"] == "https://log.example/sub/feed_json_created.json"


def test_the_newest_entries_come_first_and_only_so_many(lab):
    for number in range(40):
        day = f"2026-01-{number % 28 + 1:02}"
        lab.entry(FRONT.replace("2026-12-02", day), name=f"{day}-old-{number}.md")
    assert len(rss(lab).entries) == feed.ITEMS_AT_MOST == len(json_feed(lab)["items"])
    assert rss(lab).entries[0].link == ENTRY


def test_text_that_looks_like_markup_stays_text(lab):
    front = FRONT.replace("One sum is enough", "'Fish & chips \" ]]'")
    lab.entry(front.replace("[pytorch, sums]", "['R&D', 'a\"b']"))
    (item,) = rss(lab).entries
    assert item.title == 'Fish & chips " ]]'
    assert [tag.term for tag in item.tags] == ["R&D", 'a"b']


def test_what_a_record_calls_its_gpu_cannot_break_the_feed(tmp_path):
    lab = Lab(tmp_path / "lab")
    artifact = lab.artifact()
    there = record_of(artifact, []).environment
    named = msgspec.structs.replace(there, gpu={"name": "H\u0001<b>\u2028\ufffe&"})
    lab.publish(artifact, timed(batch=31), environment=named)
    lab.entry()
    assert len(rss(lab).entries) == 1
    assert "<b>" not in json_feed(lab)["items"][0]["content_html"]
