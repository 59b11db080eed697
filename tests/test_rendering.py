"""A rendering is kept only where nothing around it can make it wrong, and comes back as it was."""

import pytest

from warplog.rendering import Heading, Rendering, leads_on, neighbours, pack, unpack
from warplog.spool import Spool


def test_a_rendering_comes_back_as_it_was():
    below = [Heading("b", "b", 2, [])]
    made = Rendering(
        "<p>x</p>", "x", [Heading("a", "a", 1, below)], ["a"], {"m.md": {"x": "y"}}, None
    )
    assert unpack(pack(made)) == made


@pytest.mark.parametrize("kept", [None, b"", b"\xc1", b"\x93\x01\x02\x03"])
def test_what_is_no_rendering_is_none(kept):
    assert unpack(kept) is None


def test_links_to_the_site_are_found_from_the_page_on():
    html = (
        '<a href="two.html#x">a</a> <a class="y" href="../method.html">b</a> <img alt="" src="x.png">'
        "<a href='#here'>c</a><a href=\"https://example.org/\">d</a><a href='mailto:x@y'>e</a>"
    )
    assert neighbours(html, "entries/one.html") == [
        "entries/two.html",
        "method.html",
        "entries/x.png",
    ]


def test_a_link_that_leads_nowhere_is_noticed():
    known = {"entries/two.html", "method.html"}
    assert leads_on('<a href="two.html">a</a>', "entries/one.html", known)
    assert not leads_on('<a href="two.md">a</a>', "entries/one.html", known)
    assert not leads_on('<a href="/method.html">a</a>', "entries/one.html", known)
    assert leads_on('<a href="https://example.org/">a</a>', "entries/one.html", known)


def test_a_spool_gives_each_text_once():
    spool = Spool()
    spool.put("one", "é\ud800")
    spool.put("two", "2")
    spool.put("one", "again")
    assert spool.take("two") == "2"
    assert spool.take("one") == "again"
    assert spool.take("one") is None
    spool.close()
    assert spool.take("two") is None
    spool.put("three", "3")
    assert spool.take("three") == "3"
    spool.close()
