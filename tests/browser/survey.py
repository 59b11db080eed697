"""Looks at every page of a site in a browser, wide and narrow, light and dark, and notes what is wrong.

The rule kept here: one visit a page and variant; the notes are kept by kind, so that each test asks for
one. What is the theme's own and known stands in KNOWN with its reason; anything else is a finding.
"""

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .needs import package

HERE = Path(__file__).parent
FACTS = (HERE / "facts.js").read_text(encoding="utf-8")
WATCH_SHIFTS = """
window.warplogShift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (!entry.hadRecentInput) window.warplogShift += entry.value;
  }
}).observe({type: "layout-shift", buffered: true});
"""
SETTLED = """() => document.fonts.ready.then(() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60)))))"""
AXE = """() => axe.run(document, {resultTypes: ["violations"]}).then((found) =>
  found.violations.filter((each) => ["serious", "critical"].includes(each.impact)).flatMap((each) =>
    each.nodes.map((node) => [each.id, node.target.flat().join(" "), node.html.slice(0, 160)])))"""
PATIENCE = 120_000  # milliseconds; a busy machine is no fault of a page
SHIFT_AT_MOST = 0.01

# What axe-core says of the theme itself: the rule and the end of the element's selector.
KNOWN = {
    # Its program makes each table of the prose scroll, in a box around it or by itself, and gives neither
    # a tabindex; browsers let the keyboard scroll a box that holds nothing else to reach.
    ("scrollable-region-focusable", ".md-typeset__scrollwrap"),
    ("scrollable-region-focusable", ".md-typeset__table > table"),
}
# The same, for our own question whether a box that scrolls has a tabindex: the element's beginning.
SCROLLING = ("div.md-typeset__scrollwrap", "table ")


@dataclass(frozen=True)
class Variant:
    """One way to look at a page; axe-core looks at the two that differ most."""

    width: int
    scheme: str

    @property
    def with_axe(self):
        """True for wide and light, and for narrow and dark."""
        return (self.width, self.scheme) in {(1440, "light"), (390, "dark")}

    def __str__(self):
        return f"{self.width} px {self.scheme}"


VARIANTS = [Variant(width, scheme) for width in (1440, 390) for scheme in ("light", "dark")]


@dataclass
class Survey:
    """What is wrong with the pages of a site, by kind; `seen` counts the visits."""

    found: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    seen: int = 0

    def note(self, kind, page, variant, words):
        """Keep a finding."""
        self.found[kind].append(f"{page} ({variant}): {words}")

    def of(self, kind):
        """The findings of a kind, each once."""
        return list(dict.fromkeys(self.found[kind]))


@cache
def axe():
    """The source of axe-core, as it is packed with its Python wrapper."""
    path = Path(package("axe_playwright_python").__file__).parent / "axe.min.js"
    return path.read_text(encoding="utf-8")


def _message(each):
    if each.type in {"error", "warning"}:
        yield "console", f"{each.type}: {each.text} ({each.location['url']})"


def _failed(each):
    if each.failure != "net::ERR_ABORTED":  # the page was left while it still asked
        yield "failed", f"{each.failure}: {each.url}"


def _response(each):
    if each.status >= 400:
        yield "failed", f"{each.status}: {each.url}"


def _dialog(each):
    each.dismiss()
    yield "ran", f"a dialog opened: {each.message}"


def _foreign(top):
    own = (top, "data:", "blob:")
    return lambda each: [] if each.url.startswith(own) else [("foreign", each.url)]


@contextmanager
def watched(page, top, note):
    """Call `note(kind, words)` for what a page says, asks for and does while it is watched."""
    rules = {
        "console": _message,
        "pageerror": lambda each: [("console", f"uncaught: {each}")],
        "request": _foreign(top),
        "requestfailed": _failed,
        "response": _response,
        "dialog": _dialog,
        "popup": lambda each: [("ran", f"a window opened: {each.url}")],
    }
    heard = {
        event: lambda each, rule=rule: [note(*found) for found in rule(each)]
        for event, rule in rules.items()
    }
    for event, listener in heard.items():
        page.on(event, listener)
    yield
    for event, listener in heard.items():
        page.remove_listener(event, listener)


def survey(browser, pages, top, variants=VARIANTS):
    """Visit `pages` of the site that is served at `top`, and return what is wrong."""
    result = Survey()
    for variant in variants:
        context = browser.new_context(
            viewport={"width": variant.width, "height": 900}, color_scheme=variant.scheme
        )
        context.add_init_script(WATCH_SHIFTS)
        page = context.new_page()
        page.goto(top + pages[0], wait_until="load")  # the fonts come from the cache from here on
        for path in pages:
            _visit(page, path, top, variant, result)
        context.close()
    return result


def _visit(page, path, top, variant, result):
    def note(kind, words):
        result.note(kind, path, variant, words)

    with watched(page, top, note):
        page.goto(top + path, wait_until="load", timeout=PATIENCE)
        page.evaluate(SETTLED)
        _judge(page.evaluate(FACTS), variant, note)
        if variant.with_axe:
            page.evaluate(axe())
            for rule, target, html in page.evaluate(AXE):
                if not any(rule == known and target.endswith(end) for known, end in KNOWN):
                    note("axe", f"{rule}: {target}: {html}")
    result.seen += 1


def _judge(facts, variant, note):
    """Note what of a page's facts is wrong."""
    if facts["ran"]:
        note("ran", "window.pwned was set")
    if facts["shift"] > SHIFT_AT_MOST:
        note("shift", f"a layout shift of {facts['shift']:.3f}")
    if facts["width"] > facts["window"] or facts["window"] != variant.width:
        note("scroll", f"{facts['width']} px, for {facts['widest']}")
    scheme = {"light": "default", "dark": "slate"}[variant.scheme]
    if facts["scheme"] != scheme:
        note("scheme", f"the scheme is {facts['scheme']}")
    for kind in ("out", "mute", "twice", "boxes"):
        for words in facts[kind]:
            if kind != "boxes" or not words.startswith(SCROLLING):
                note(kind, words)
