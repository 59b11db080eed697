"""An entry reads the same without script and on paper, shows hostile text as text, and is light."""

import io
import re
import time

import pytest

from .findings import nothing
from .hostile import MARKUP, TEXT, field
from .needs import package
from .survey import SHIFT_AT_MOST, WATCH_SHIFTS

pypdf = package("pypdf")
pytestmark = pytest.mark.browser

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]")
WEIGHT_AT_MOST = 260_000  # bytes over the wire, fonts and all
TEXT_OF = """() => {
  const copy = document.querySelector("article").cloneNode(true);
  document.querySelector("article").after(copy);
  copy.querySelectorAll("button, .md-code__nav, noscript").forEach((each) => each.remove());
  const text = copy.innerText;
  copy.remove();
  return text;
}"""
BEGINNING = 130  # characters: the markup of a hostile text stands in them
PLAIN = ["title", "summary", "tag"]
MARKED = [
    "says", "says-too", "by", "value", "subject", "over", "metric", "workload", "gpu", "driver",
    "python", "system", "package", "variable", "slowed", "timer", "disturbed", "failed", "wrong",
    "figure-title", "caption",
]  # fmt: skip


def words(text):
    """The words of a text, however it is spaced."""
    return text.split()


def letters(text):
    """The letters and digits of a text, for a printer that places each by itself."""
    return re.sub(r"\W", "", text)


def entries(site, top):
    """The addresses of the pages of a site's entries."""
    return [top + page for page in site.entries]


def test_an_entry_reads_the_same_without_script(site, top, opened):
    for url in entries(site, top):
        running, plain = opened(url), opened(url, java_script_enabled=False)
        assert words(plain.evaluate(TEXT_OF)) == words(running.evaluate(TEXT_OF)), url


@pytest.fixture(scope="package")
def hostile(browser, lab_url):
    """All text of the hostile entry's page, whether it is open or not."""
    page = browser.new_page()
    page.goto(lab_url + "entries/hostile.html")
    text = page.locator("body").evaluate("each => each.textContent")
    page.close()
    return " ".join(
        words(text.replace('\\"', '"'))
    )  # a workload is spelled with its quotes escaped


def shown(text, wanted):
    """Fail unless `text` shows the beginning of `wanted`: a page may leave out the middle."""
    beginning = " ".join(words(wanted))[:BEGINNING]
    if beginning not in text:
        name = beginning.split()[0]
        at = text.find(name)
        found = text[at : at + 2 * BEGINNING] if at >= 0 else f"no {name}"
        pytest.fail(f"wanted {beginning}\nfound {found}", pytrace=False)


@pytest.mark.parametrize("name", PLAIN)
def test_a_hostile_title_summary_or_tag_is_shown_as_text(hostile, name):
    shown(hostile, field(name, TEXT))


@pytest.mark.parametrize("name", MARKED)
def test_a_hostile_field_is_shown_as_text(hostile, name):
    shown(hostile, field(name, MARKUP))


def test_a_hostile_name_of_a_file_is_shown_as_text(opened, lab_url):
    page = opened(lab_url + "entries/stale.html")
    text = page.locator("body").evaluate("each => each.textContent")
    shown(" ".join(words(text)), field("file"))


def test_no_control_character_reaches_a_page(lab):
    nothing(
        f"{page}: {sorted(controls)}"
        for page in lab.pages
        if (controls := set(CONTROL.findall(lab.text(page))))
    )


def test_an_entry_prints_on_a_sane_number_of_pages_without_its_header(site, top, opened):
    for url in entries(site, top):
        page = opened(url)
        title = page.locator("h1").first.inner_text()
        last = page.locator("article h2").last.inner_text()
        height = page.evaluate("() => document.querySelector('article').scrollHeight")
        sheets = pypdf.PdfReader(io.BytesIO(page.pdf(format="A4"))).pages
        assert 1 <= len(sheets) <= 3 + height / 500, url
        first = sheets[0].extract_text()
        assert letters(title)[:40] in letters(first), url
        assert "Search" not in first.split("\n"), url
        assert any(
            letters(last)[:40] in letters(each.extract_text()) for each in reversed(sheets)
        ), url


def test_what_only_a_screen_needs_is_not_printed(site, top, opened):
    page = opened(top + site.entries[0])
    page.emulate_media(media="print")
    for part in (
        ".md-header",
        ".md-tabs",
        ".md-sidebar",
        ".md-search",
        ".md-top",
        "article button",
    ):
        shown = page.locator(part).evaluate_all("all => all.some((each) => each.checkVisibility())")
        assert not shown, part


def test_an_entry_weighs_little(journal, journal_url, opened):
    """With compression, and with the fonts, styles and programs that the page asks for."""
    for url in entries(journal, journal_url):
        page = opened("about:blank")
        heard = []
        page.on("requestfinished", lambda each, heard=heard: heard.append(each))
        page.goto(url, wait_until="networkidle")
        sizes = {each.url: each.sizes() for each in heard}
        weight = {
            url: size["responseBodySize"] + size["responseHeadersSize"]
            for url, size in sizes.items()
        }
        assert any(each.endswith(".woff2") for each in weight), "the page asks for no font"
        assert sum(weight.values()) <= WEIGHT_AT_MOST, weight


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_while_a_reader_scrolls_through_an_entry(
    journal, journal_url, browser, width
):
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.add_init_script(WATCH_SHIFTS)
    page = context.new_page()
    for url in entries(journal, journal_url):
        page.goto(url, wait_until="networkidle")
        for _ in range(30):
            page.mouse.wheel(0, 700)
            page.wait_for_timeout(30)
        assert page.evaluate("() => window.warplogShift") <= SHIFT_AT_MOST, url
    context.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_when_the_fonts_come_late(journal, journal_url, browser, width):
    def late(route):
        time.sleep(0.4)
        route.continue_()

    for url in entries(journal, journal_url):
        context = browser.new_context(viewport={"width": width, "height": 900})
        context.add_init_script(WATCH_SHIFTS)
        page = context.new_page()
        page.route("**/*.woff2", late)
        page.goto(url, wait_until="networkidle")
        assert page.evaluate("() => window.warplogShift") <= SHIFT_AT_MOST, url
        context.close()
