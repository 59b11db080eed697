"""Text that a program or an author wrote is legible on a page, and nothing in it is obeyed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplog.output import LINE_AT_MOST, WORDS_AT_MOST, plain_output, plain_words


@pytest.mark.parametrize(
    ("output", "shown_as"),
    [
        ("a```b", "a```b"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b(B", "red x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never closed\nnext", "\nnext"),
        ("10%\r20%\r100%", "100%"),
        ("downloading\rdone", "doneloading"),
        ("one\r\ntwo\r\n", "one\ntwo"),
        ("abc\b\bX", "aX"),
        ("\b\bX", "X"),
        ("nul\x00 bell\x07 del\x7f", "nul\u2400 bell\u2407 del\u2421"),
        ("é 漢 \udce9", "é 漢 \ufffd"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("<b> & 'x'", "&lt;b&gt; &amp; &#x27;x&#x27;"),
        ("no newline at the end", "no newline at the end"),
        ("\n\n", ""),
    ],
)
def test_program_output_is_shown_as_a_terminal_would(output, shown_as):
    assert plain_output(output) == shown_as


def test_a_line_that_is_too_long_says_what_is_left_out():
    line = "a" * 40_000 + "b" * 30_000
    text = plain_output(f"before\n{line}\nafter")
    assert text.startswith("before\naaa")
    assert text.endswith("bbb\nafter")
    assert f"[... {70_000 - LINE_AT_MOST} characters left out ...]" in text


def test_words_stand_on_one_line_and_are_cut_sooner_than_output():
    assert plain_words("two\nlines & <more>") == "two lines &amp; &lt;more&gt;"
    long = plain_words("W" * 10_000)
    assert f"[... {10_000 - WORDS_AT_MOST} characters left out ...]" in long
    assert long.count("W") == WORDS_AT_MOST


@given(st.text())
def test_no_output_is_obeyed(output):
    text = plain_output(output)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f<>\u202a-\u202e]", text)
    text.encode("utf-8")
