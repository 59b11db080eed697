"""Cards: drawn at build time from the site's own fonts, whatever a title holds."""

import re
from collections import Counter
from io import BytesIO
from pathlib import Path

import pytest
from factory import FRONT, lab_with_entry
from PIL import Image

from warplog import gallery
from warplog.address import SITE_CARD, card_address
from warplog.card import HEIGHT, WIDTH, Card, Painter
from warplog.claim import Verdict
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.journal import read_journal
from warplog.outline import Line
from warplog.raster import COLOURS, Ink, Raster
from warplog.site import Site
from warplog.typeface import ELLIPSIS, Typeface

ROOT = Path(__file__).parents[1]
FONTS = ROOT / "site_src" / "assets" / "fonts"
SITE = Site("Warplog", "A journal.", "https://log.example/")
LINE = Line("NVIDIA H200", "12×", "11.8–12.2×", "", Counter({Verdict.SUPPORTED: 1}))
CARD = Card("Warplog", "2026-12-02", "One sum is enough", "One sentence.", "speedup", [LINE])
HOSTILE = [
    "",
    "W" * 10_000,
    "日本語 العربية 🙂",
    "e\u0301\u200b\u200f\u202e",
    "a " * 5_000,
    "\u2060",
    "Ω ž µ × ≥",
]


@pytest.fixture(scope="module")
def painter():
    return Painter(FONTS)


@pytest.fixture(scope="module")
def serif():
    return Typeface([FONTS / "serif.woff2", FONTS / "serif-more.woff2"], 40, 600)


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def opened(png):
    image = Image.open(BytesIO(png))
    image.load()
    return image


def cards(lab, kept):
    journal, _ = read_journal(Archive(lab.repository))
    return gallery.cards(journal, SITE, FONTS, kept)


def with_(**changes):
    fields = {name: getattr(CARD, name) for name in Card.__struct_fields__}
    return Card(**{**fields, **changes})


def test_a_card_is_a_picture_of_the_size_that_networks_show(painter):
    image = opened(painter.paint(CARD))
    assert (image.format, image.size) == ("PNG", (WIDTH, HEIGHT))
    assert image.convert("RGB").getpixel((0, 0)) == (0xFC, 0xFB, 0xF8)


def test_a_card_shows_each_thing_that_it_is_given(painter):
    plain = painter.paint(CARD)
    other = Line("NVIDIA B200", "", "", "stale record", Counter({Verdict.REFUTED: 1}))
    for changed in (
        with_(title="Two sums"),
        with_(summary="Another."),
        with_(about="latency"),
        with_(beside="2026-12-03"),
        with_(name="Log"),
        with_(lines=[other]),
        with_(lines=[LINE, LINE]),
        with_(lines=[LINE] * 5),
    ):
        assert painter.paint(changed) != plain


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_ends_the_build(painter, text):
    line = Line(text, text, text, text, Counter())
    card = Card(text[:100], text, text, text, text, [line, line])
    assert opened(painter.paint(card)).size == (WIDTH, HEIGHT)


def test_nothing_is_drawn_in_the_margin(painter):
    """However long the words, they end inside the card."""
    line = Line("W" * 500, "9" * 500, "9" * 500, "", Counter(dict.fromkeys(Verdict, 10**9)))
    card = Card("Warplog", "tag " * 500, "W" * 500, "w" * 500, "w" * 500, [line] * 3)
    image = opened(painter.paint(card)).convert("RGB")
    for box in (
        (0, 0, 60, HEIGHT),
        (WIDTH - 60, 0, WIDTH, HEIGHT),
        (0, HEIGHT - 30, WIDTH, HEIGHT),
    ):
        assert len(image.crop(box).getcolors()) == 1


def test_the_same_card_is_the_same_bytes(painter):
    assert painter.paint(CARD) == Painter(FONTS).paint(CARD)


def test_the_colours_are_those_of_the_site():
    style = (ROOT / "site_src" / "style" / "1-base.css").read_text(encoding="utf-8")
    for pair in COLOURS.values():
        assert all(f"light-dark({colour}, " in style for colour in pair)


def test_every_ink_reaches_its_colour_and_its_background():
    for ink, (colour, background) in COLOURS.items():
        raster = Raster(2, 1)
        raster.fill((0, 0, 1, 1), ink)
        raster.fill((1, 0, 2, 1), ink, tint=True)
        image = opened(raster.png()).convert("RGB")
        shown = ["#{:02x}{:02x}{:02x}".format(*image.getpixel((x, 0))) for x in (0, 1)]
        assert shown == [colour, background], Ink(ink)


def test_a_text_is_wrapped_at_words_and_what_is_left_ends_with_an_ellipsis(serif):
    lines = serif.wrapped("one two three four five six seven eight nine ten", 200, 2)
    assert len(lines) == 2
    assert re.fullmatch(r"one two( \w+)*", lines[0])
    assert lines[1].endswith(ELLIPSIS)
    assert all(serif.width(line) <= 200 for line in lines)


def test_a_word_that_is_too_long_is_cut_where_it_must_be(serif):
    lines = serif.wrapped("W" * 100, 200, 3)
    assert len(lines) == 3
    assert all(0 < serif.width(line) <= 200 for line in lines)


def test_a_text_that_fits_is_left_as_it_is(serif):
    assert serif.wrapped("one two", 1000, 2) == ["one two"]
    assert serif.wrapped("", 1000, 2) == []


def test_a_letter_of_the_second_file_is_drawn_and_one_of_neither_is_a_box(serif):
    box, other, letter = (
        next(serif.words(text))[1].cover.tobytes() for text in ("\u4e00", "\u4e8c", "Ω")
    )
    assert box == other != letter


def test_a_missing_font_is_said_with_a_remedy(tmp_path):
    (tmp_path / "serif.woff2").write_bytes(b"no font")
    with pytest.raises(Fault, match=r"serif\.woff2: is no font .*restore the file"):
        Painter(tmp_path)


def test_each_entry_and_the_site_have_a_card(lab, tmp_path):
    found = cards(lab, tmp_path / "kept")
    assert set(found) == {card_address("one-sum"), SITE_CARD}
    for path in found.values():
        assert opened(path.read_bytes()).size == (WIDTH, HEIGHT)


def test_a_card_is_painted_once(lab, tmp_path, monkeypatch):
    first = cards(lab, tmp_path / "kept")
    monkeypatch.delattr(Painter, "paint")
    assert cards(lab, tmp_path / "kept") == first


def test_a_changed_title_is_a_new_card_and_the_old_one_stays_for_another_build(lab, tmp_path):
    before = cards(lab, tmp_path / "kept")
    lab.entry(FRONT.replace("One sum is enough", "Two sums"))
    after = cards(lab, tmp_path / "kept")
    assert after[card_address("one-sum")] != before[card_address("one-sum")]
    assert after[SITE_CARD] == before[SITE_CARD]
    assert all(path.exists() for path in before.values())


@pytest.mark.parametrize("damage", ["emptied", "cut", "changed", "zeroed", "longer"])
def test_a_card_that_is_not_whole_is_painted_again(lab, tmp_path, damage):
    path = cards(lab, tmp_path / "kept")[SITE_CARD]
    content = path.read_bytes()
    damaged = {
        "emptied": b"",
        "cut": content[:-5],
        "changed": content[:90] + bytes([content[90] ^ 1]) + content[91:],
        "zeroed": bytes(len(content)),
        "longer": content + b"x",
    }
    path.write_bytes(damaged[damage])
    assert cards(lab, tmp_path / "kept")[SITE_CARD].read_bytes() == content


def test_where_no_card_can_be_written_a_fault_says_so(lab, tmp_path):
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(Fault, match=r"\.cache/warplog: the card of a page cannot be written"):
        cards(lab, tmp_path / "kept")


def test_a_new_font_is_a_new_card(lab, tmp_path):
    fonts = tmp_path / "fonts"
    fonts.mkdir()
    for path in FONTS.glob("*.woff2"):
        (fonts / path.name).write_bytes(path.read_bytes())
    journal, _ = read_journal(Archive(lab.repository))
    before = gallery.cards(journal, SITE, fonts, tmp_path / "kept")
    (fonts / "mono.woff2").unlink()
    assert gallery.cards(journal, SITE, fonts, tmp_path / "kept") != before


def test_a_card_is_described_for_those_who_do_not_see_it(lab):
    journal, _ = read_journal(Archive(lab.repository))
    words = gallery.described(journal.outcomes[0])
    assert words == "One sum is enough; NVIDIA H200: 12×, 1 supported"
