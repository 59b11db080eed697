"""Every page of both sites, wide and narrow, light and dark, as a browser shows it."""

import pytest

from .findings import nothing
from .survey import VARIANTS, Variant, survey

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><html lang="en"><head><title>A page</title>
<link rel="icon" href="data:,"></head><body data-md-color-scheme="default">
<div class="md-content"><main><h1>A page</h1>{}</main></div></body></html>"""
WRONG = {
    "console": '<script>console.error("wrong")</script>',
    "console of a program that fails": "<script>throw new Error('wrong')</script>",
    "failed": '<img alt="gone" src="gone.png">',
    "foreign": '<img alt="foreign" src="https://example.org/x.png">',
    "scroll": '<div style="width: 2000px">wide</div>',
    "out": '<div style="overflow: hidden"><div style="width: 3000px; text-align: right">x</div></div>',
    "mute": '<svg role="img"></svg>',
    "mute image": '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEAAAA7">',
    "twice": '<p id="one"></p><p id="one"></p>',
    "boxes": '<div style="height: 9px; overflow: auto"><p>one</p><p>two</p></div>',
    "axe": '<p style="color: #ddd; background: #fff">pale</p>',
    "shift": "<script>addEventListener('load', () => requestAnimationFrame(() => requestAnimationFrame("
    "() => document.querySelector('h1').before(Object.assign(document.createElement('div'), "
    "{style: 'height: 400px'})))))</script><p>below</p>",
    "ran": "<script>window.pwned = 1</script>",
    "ran a dialog": "<script>setTimeout(() => alert(1))</script>",
    "scheme": "<script>document.body.dataset.mdColorScheme = 'slate'</script>",
}


@pytest.fixture(scope="package")
def seen(site, top, browser):
    """What is wrong with the pages of one of the two sites."""
    return survey(browser, site.pages, top)


def test_every_page_is_seen_in_every_variant(seen, site):
    assert len(site.pages) > 5
    assert seen.seen == len(site.pages) * len(VARIANTS)


def test_the_console_is_silent(seen):
    nothing(seen.of("console"))


def test_no_request_fails(seen):
    nothing(seen.of("failed"))


def test_no_request_leaves_the_site(seen):
    nothing(seen.of("foreign"))


def test_no_page_scrolls_sideways(seen):
    nothing(seen.of("scroll"))


def test_no_text_sticks_out_of_the_window(seen):
    nothing(seen.of("out"))


def test_images_and_drawings_have_text(seen):
    nothing(seen.of("mute"))


def test_no_id_is_given_twice(seen):
    nothing(seen.of("twice"))


def test_a_box_that_scrolls_is_reached_by_the_keyboard(seen):
    nothing(seen.of("boxes"))


def test_axe_finds_nothing_serious_that_is_ours(seen):
    nothing(seen.of("axe"))


def test_nothing_moves_while_a_page_loads(seen):
    nothing(seen.of("shift"))


def test_nothing_hostile_runs(seen):
    nothing(seen.of("ran"))


def test_the_reader_gets_the_scheme_that_the_system_asks_for(seen):
    nothing(seen.of("scheme"))


def test_what_slipped_onto_a_page_would_not_run(lab, lab_url, browser):
    """The policy of a page stops a program that the checks of its text let through."""
    live = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
    text = lab.text("entries/plain.html").replace("</article>", f"{live}</article>")
    page = browser.new_page()
    page.route("**/entries/plain.html", lambda route: route.fulfill(body=text))
    page.goto(lab_url + "entries/plain.html", wait_until="networkidle")
    assert page.locator("article img[src=x]").count() == 1
    assert page.evaluate("() => typeof window.pwned") == "undefined"
    page.close()


@pytest.mark.parametrize("kind", WRONG)
def test_the_survey_sees_what_is_wrong(kind, browser, tmp_path, serve):
    """Each check above finds the thing that it is there for, and nothing else on that page."""
    (tmp_path / "page.html").write_text(PAGE.format(WRONG[kind]), encoding="utf-8")
    found = survey(browser, ["page.html"], serve(tmp_path), [Variant(1440, "light")])
    assert found.of(kind.split()[0])


def test_the_survey_finds_nothing_where_nothing_is_wrong(browser, tmp_path, serve):
    (tmp_path / "page.html").write_text(PAGE.format("<p>Words.</p>"), encoding="utf-8")
    found = survey(browser, ["page.html"], serve(tmp_path), [Variant(1440, "light")])
    assert not any(found.found.values())
