"""A reader with a keyboard alone reaches everything, in order, and sees where she is."""

import re

import pytest

from .findings import nothing

pytestmark = pytest.mark.browser

# All that Tab should reach, in the order of the document; one of each group of radio buttons.
LIST = """() => {
  const groups = new Set();
  const all = "a[href], button, input, select, textarea, summary, [tabindex]";
  window.stops = [...document.querySelectorAll(all)].filter((each) => {
    if (each.tabIndex < 0 || each.disabled || each.closest("[hidden]")) return false;
    if (!each.checkVisibility({visibilityProperty: true})) return false;
    if (each.type !== "radio") return true;
    const first = !groups.has(each.name);
    groups.add(each.name);
    return first;
  });
  window.look = (element) => [element, element.parentElement, element.nextElementSibling].map((each) => {
    if (!each) return "";
    const style = getComputedStyle(each);
    const outline = style.outlineStyle === "none" || !parseFloat(style.outlineWidth) ? "" :
      style.outlineWidth + style.outlineColor;
    const border = parseFloat(style.borderTopWidth) ? style.borderTopColor : "";
    return [outline, style.boxShadow, style.backgroundColor, border].join("|");
  });
  window.looks = window.stops.map(window.look);
  return window.stops.length;
}"""
WHERE = """() => {
  const here = document.activeElement;
  if (!here || here === document.body) return null;
  const same = (each) => each === here || (here.type === "radio" && each.name === here.name);
  const index = window.stops.findIndex(same);
  const box = here.getBoundingClientRect();
  const inside = box.bottom >= 0 && box.top <= innerHeight && box.right >= 0 && box.left <= innerWidth;
  const before = index < 0 ? [] : window.looks[index];
  const seen = index < 0 || window.look(here).some((each, part) => each !== before[part]);
  return {index, inside, seen, html: here.outerHTML.slice(0, 120)};
}"""
WIDE_LISTING = """() => [...document.querySelectorAll(".md-content figure *")].find((each) =>
  each.getAttribute("tabindex") === "0" && /auto|scroll/.test(getComputedStyle(each).overflowX) &&
  each.scrollWidth > each.clientWidth + 1)"""
NAMES = "() => window.stops.map((each) => each.outerHTML.slice(0, 120))"


def one_of_each_kind(site):
    """The pages at the top and one page of each folder."""
    first = {}
    for page in site.pages:
        folder, _, name = page.rpartition("/")
        if not folder or folder not in first or name == "plain.html":
            first[folder or name] = page
    return sorted(first.values())


def walk(page):
    """Press Tab from the top to the end; what Tab should reach and where it came."""
    count = page.evaluate(LIST)
    names = page.evaluate(NAMES)
    stops = []
    for _ in range(count + 30):
        page.keyboard.press("Tab")
        where = page.evaluate(WHERE)
        if where and not where["seen"]:
            page.wait_for_timeout(300)  # the theme fades some of its own in
            where = page.evaluate(WHERE)
        if where is None:
            continue  # past the end, or at a button that hid itself: Tab goes on from there
        if stops and where["index"] == stops[0]["index"]:
            break
        stops.append(where)
    return names, stops


@pytest.fixture(scope="package")
def walks(lab, lab_url, browser):
    """A walk over one page of each kind."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    found = {}
    for path in one_of_each_kind(lab):
        page.goto(lab_url + path, wait_until="load")
        found[path] = walk(page)
    context.close()
    return found


def test_tab_reaches_everything_that_can_be_used(walks):
    lost = [
        f"{path}: {names[index]}"
        for path, (names, stops) in walks.items()
        for index in sorted(set(range(len(names))) - {each["index"] for each in stops})
    ]
    nothing(lost)


def test_tab_follows_the_order_of_the_page(walks):
    for path, (_, stops) in walks.items():
        order = [each["index"] for each in stops if each["index"] >= 0]
        assert order == sorted(order), path


def test_the_focus_can_be_seen(walks):
    unseen = [
        f"{path}: {each['html']}"
        for path, (_, stops) in walks.items()
        for each in stops
        if not each["seen"] or not each["inside"]
    ]
    nothing(unseen)


def test_the_first_stop_skips_to_the_content(opened, lab_url):
    page = opened(lab_url + "entries/plain.html")
    page.keyboard.press("Tab")
    link = page.evaluate_handle("() => document.activeElement").as_element()
    page.wait_for_function("each => getComputedStyle(each).opacity === '1'", arg=link)
    assert "Skip" in link.inner_text()
    target = link.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_function("target => location.hash === target", arg=target)
    page.keyboard.press("Tab")
    assert page.evaluate("() => Boolean(document.activeElement.closest('.md-content'))")


@pytest.mark.parametrize("key", ["/", "s"])
def test_a_key_opens_the_search_and_escape_closes_it(opened, lab_url, key):
    page = opened(lab_url + "entries/plain.html")
    field = page.locator("input.md-search__input")
    page.wait_for_function("() => document.querySelector('.md-search__input')")
    page.keyboard.press(key)
    page.wait_for_function("() => document.activeElement?.matches('.md-search__input')")
    assert field.input_value() == ""
    assert page.locator("#__search").is_checked()
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.activeElement?.matches('.md-search__input')")
    assert not page.locator("#__search").is_checked()


def test_a_table_of_data_opens_and_closes_by_key(opened, lab_url):
    page = opened(lab_url + "entries/plain.html")
    summary = page.locator(".md-content summary").first
    details = page.locator(".md-content details").first
    before = details.evaluate("each => each.open")
    summary.focus()
    page.keyboard.press("Enter")
    assert details.evaluate("each => each.open") is not before
    assert re.search(r"\S", summary.inner_text())


def test_a_box_that_scrolls_does_so_by_key(opened, lab_url):
    page = opened(lab_url + "entries/hostile.html", width=390)
    box = page.evaluate_handle(WIDE_LISTING).as_element()
    assert box, "no box of a listing scrolls and has tabindex=0"
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("each => each.scrollLeft > 0", arg=box)
