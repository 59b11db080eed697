"""A site built from hostile texts in every field that one can hold, opened in a browser without its policy.

The rule kept here: no text runs, asks for anything or leaves its attribute, even where the policy of the
page, which would stop it, is not obeyed; and every text is shown as it is.
"""

import re
import shutil

import msgspec
import pytest
from factory import Lab, measured, record_of

from warplog.body import CONTROL
from warplog.check import check
from warplog.workload import spell

from .conftest import ROOT, build
from .findings import nothing
from .manuscript import H200, SPREAD, environment_of, front_matter, spelled, write
from .serving import served

pytestmark = pytest.mark.browser

RUN = "window.pwned=1"
ASK = "//evil.invalid/pwned"
# Texts that some program between the record and the reader could take for its own: HTML in its many
# spellings, attributes, addresses, SVG, CSS, Markdown, templates, JSON in a script, and mere confusion.
PLAIN = [
    f'" onmouseover="{RUN}" pwned="',
    f"' onfocus='{RUN}' autofocus pwned='",
    f"` onclick={RUN} pwned=1 `",
    f"x onload={RUN} pwned",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"&#60;img src=x onerror={RUN} pwned&#62;",
    f"&quot; pwned=1 onload={RUN}",
    "&#34; pwned=1 &#34;",
    "&#x22 pwned=1",
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}",
    f"java&#x73;cript:{RUN}",
    f"java\u2028script:{RUN}",
    f"data:text/html,{RUN}",
    f"vbscript:{RUN}",
    f"https:{ASK}.png",
    f"![pwned]({ASK}.png)",
    f"[pwned](javascript:{RUN})",
    f"[pwned]: {ASK}",
    "[x][pwned]",
    f"{{: onclick={RUN} pwned=1 }}",
    f"{{: style=background:url({ASK}) }}",
    "`` ` `` ``` pwned ```",
    "**pwned** __pwned__ ~~pwned~~",
    "# pwned",
    "| pwned | --- |",
    "---",
    "...",
    "{{ 7*7 }} {% raw %} {# pwned #}",
    "${{ github.token }} $(id) `id`",
    "%s %(pwned)s {0} {pwned}",
    f"url({ASK})",
    f"expression({RUN})",
    f"}} body {{ background: url({ASK}) }}",
    f"*/ @import '{ASK}'; /*",
    '\\"}]}; window.pwned=1; //',
    "\\u003cscript\\u003ewindow.pwned=1",
    "'; window.pwned=1; '",
    "${window.pwned=1}",
    "]]&gt; --&gt; pwned",
    "\u202epwned\u202c",
    "pwned\u200b\u200d\ufeff",
    "é\u0301\u0489" * 9,
    "\U0001f469\u200d\U0001f52c",
    "עברית pwned العربية",
    "wlx0x",
    "\ue000pwned\ue001",
    "tok-1",
    "%3Cscript%3Ewindow.pwned=1%3C/script%3E",
]
MARKUP = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<script src={ASK}.js></script>",
    f"<img src=x onerror={RUN} pwned>",
    f'"><img src=x onerror={RUN} pwned>',
    f"'><img src={ASK}.png pwned>",
    f"<svg onload={RUN} pwned>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><a xlink:href=javascript:{RUN}>x",
    f"</svg><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</text><image href={ASK}.png pwned />",
    f"<svg><animate onbegin={RUN} attributeName=x pwned>",
    f"<svg><use href='{ASK}.svg#x' pwned></svg>",
    f"<svg><foreignObject><iframe srcdoc='{RUN}' pwned></iframe></foreignObject></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN} pwned>",
    f"<iframe src=javascript:{RUN} pwned>",
    f"<iframe src={ASK} pwned></iframe>",
    f"<object data={ASK} pwned></object>",
    f"<embed src={ASK} pwned>",
    f"<link rel=stylesheet href={ASK}.css pwned>",
    f"<style>@import '{ASK}.css'</style>",
    "<base href=//evil.invalid/>",
    f"<meta http-equiv=refresh content='0;url={ASK}' pwned>",
    f"<form action={ASK} pwned><button>x</button></form>",
    f"<input onfocus={RUN} autofocus pwned>",
    f"<details open ontoggle={RUN} pwned>",
    f"<body onload={RUN} pwned>",
    f"<video><source onerror={RUN} pwned></video>",
    f"<audio src={ASK} autoplay pwned>",
    f"<a href=javascript:{RUN} pwned>x</a>",
    f"<div style=background:url({ASK}) pwned>",
    f"<!--><img src=x onerror={RUN} pwned>-->",
    f"<!-- --!><img src=x onerror={RUN} pwned>",
    f"<![CDATA[><img src=x onerror={RUN} pwned>]]>",
    f"<?x ><img src=x onerror={RUN} pwned>?>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN} pwned>'>",
    f"</textarea></pre></code><img src=x onerror={RUN} pwned>",
    f"<xmp><p title='</xmp><img src=x onerror={RUN} pwned>'>",
    f"<template><script>{RUN}</script></template>",
    f"<portal src={ASK} pwned>",
    f"<img srcset='{ASK}.png 2x' pwned>",
    f"<<script>{RUN}//<</script>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<img/src=x/onerror={RUN}/pwned>",
    f"<img src=x\nonerror={RUN}\npwned>",
    f"<IMG SRC=x ONERROR={RUN} PWNED>",
    "<pwned>",
    "</pwned><pwned/>",
    "<",
    "&",
    "<>",
    f"\x1b]8;;javascript:{RUN}\x07x\x1b]8;;\x07",
    f"\x1b[31m<img src=x onerror={RUN} pwned>\x1b[0m",
    f"\x00<img src=x onerror={RUN} pwned>",
    f"<img src=x onerror={RUN} pwned>\b\b\b",
    f"a\r<img src=x onerror={RUN} pwned>",
]
FILES = [
    "<img src=x onerror=pwned=1>.txt",
    '" onload="pwned=1.txt',
    "' & `pwned` {{7*7}}.txt",
    "[pwned](x).py",
]
EVERYWHERE = PLAIN + MARKUP
A_PAGE = 13  # texts on one page


def texts(start):
    """The texts of one page."""
    return EVERYWHERE[start : start + A_PAGE]


class Counted:
    """Spells the texts of one page into one field after the other, and counts them."""

    def __init__(self):
        self.put = 0

    def __call__(self, field, text):
        """The text `text`, marked with its field so that no two subjects are the same."""
        self.put += 1
        return f"{text} «{field}»"


def entry(lab, number, mark):
    """An entry, its artifact with files, and its record, of hostile texts."""
    slug, found = f"hostile-{number}", texts(number * A_PAGE)
    output = "\n".join(text.replace("```", "") for text in found)
    code = '"""' + output.replace('"""', "").replace("\\", "") + '"""\n'
    artifact = lab.artifact(slug, kernel=re.sub(r"[^\n\x20-\uffff]", "", code))
    for name in FILES:
        (artifact.folder / name).write_text(output, encoding="utf-8")
    rows, claims, values, figures = [], {}, {}, []
    for index, text in enumerate(found):
        size = {"batch": 31, "mode": mark("size", text)}
        subject, over = mark("subject", text), mark("over", text)
        runs, metric = [one * 1e-5 for one in SPREAD], mark("metric", text)
        rows += [
            measured("latency", subject, runs, **size),
            measured("latency", subject, runs, **{**size, "batch": 62}),
            measured("latency", over, [12 * one for one in runs], **size),
            measured(metric, subject, [1] * 6, unit=mark("unit", text), **size),
            measured("latency", mark("failing", text), None, failed=mark("failed", text), **size),
        ]
        claims[f"fast-{index}"] = {
            "says": mark("says", text),
            "metric": "speedup",
            "subject": subject,
            "over": over,
            "workload": spell(size),
            "at_least": 100,
            "cause": mark("cause", text),
            "reported": {
                "value": mark("value", text),
                "device": mark("reported on", text),
                "by": mark("by", text),
                "url": "https://evil.invalid/" + mark("url", text),
            },
        }
        about = {"subject": subject, "workload": spell(size)}
        values[f"time-{index}"] = {"metric": "latency", **about}
        values[f"rows-{index}"] = {"metric": metric, **about}
        figures.append(figure([subject], mark("title", text), mark("caption", text)))
    publish(lab, artifact, rows, found, mark)
    safe = [text for text in found if text.isprintable() and not set(text) & set("<>")] or ["plain"]
    front = front_matter(
        slug, mark("title", safe[0]), claims, values=values,
        tags=[mark("tag", text) for text in safe], summary=mark("summary", " ".join(safe)),
    )  # fmt: skip
    links = "\n".join(
        f"It is [?](#fast-{index}) in [?](#time-{index}) of [?](#rows-{index})."
        for index in range(len(found))
    )
    printed = CONTROL.sub("", output)  # what no text of an entry may hold
    body = f"\n{links}\n\n```text\n{printed}\n```\n\n```source\nfile: kernel.py\n```\n"
    escaped = [part.replace("\ufeff", "\\ufeff") for part in (front, "".join(figures))]
    write(lab, slug, escaped[0], body + escaped[1])


def publish(lab, artifact, rows, found, mark):
    """Publish a record whose environment, source and protocol are hostile too."""
    plain = record_of(artifact, [])
    first = found[0]
    environment = environment_of(
        artifact,
        H200,
        driver=mark("driver", first),
        python=mark("python", first),
        system=mark("system", first),
        packages={mark("package", text): mark("version", text) for text in found},
        variables={mark("variable", text): mark("setting", text) for text in found},
        clocks=[{"sm_mhz": 1980, "slowed": [mark("slowed", text) for text in found]}],
    )
    gpu = {
        "name": mark("gpu", first),
        "compute_capability": mark("cc", first),
        "multiprocessors": 1,
    }
    lab.publish(
        artifact,
        rows,
        environment=msgspec.structs.replace(environment, gpu=gpu),
        source=msgspec.structs.replace(plain.source, commit=mark("commit", first)),
        protocol=msgspec.structs.replace(plain.protocol, timer=mark("timer", first)),
        disturbed=[mark("disturbed", text) for text in found],
    )


def figure(subjects, title, caption):
    """A figure block."""
    block = {"kind": "lines", "metric": "latency", "axis": "batch", "subjects": subjects}
    return f"\n```figure\n{spelled({**block, 'title': title, 'caption': caption})}```\n"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The site of hostile texts, and how many were put into it."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(ROOT / "site_src", folder / "site_src")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    lab, mark = Lab(folder), Counted()
    for path in (folder / "site_src").rglob("*.md"):  # what links to entries of this journal
        path.write_text(re.sub(r"\]\([^)]*entries/[^)]*\)", "]", path.read_text("utf-8")), "utf-8")
    for number in range(-(-len(EVERYWHERE) // A_PAGE)):
        entry(lab, number, mark)
    return build(folder / "mkdocs.yml", tmp_path_factory.mktemp("hostile-site")), mark.put


BROKEN_OUT = """() => {
  const found = [];
  for (const each of document.querySelectorAll("*")) {
    if (/pwned/i.test(each.localName)) found.push(`the element ${each.localName}`);
    for (const { name, value } of each.attributes) {
      if (/pwned/i.test(name)) found.push(`${each.localName} has the attribute ${name}`);
      if (/^on/i.test(name)) found.push(`${each.localName} has ${name}=${value.slice(0, 60)}`);
      const runs = /^[\\s\\0-\\x1f]*(javascript|vbscript|data:text)/i.test(value);
      if (runs && /^(href|src|action|formaction|data|xlink:href|srcdoc)$/.test(name))
        found.push(`${each.localName} ${name}=${value.slice(0, 60)}`);
    }
  }
  if (typeof window.pwned !== "undefined") found.push("window.pwned was set");
  return found;
}"""


@pytest.fixture
def lawless(browser):
    """A page of a browser that obeys no policy, and the list of what it asks for."""
    context = browser.new_context(bypass_csp=True)
    page, asked = context.new_page(), []
    context.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (asked.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield page, asked
    context.close()


@pytest.mark.parametrize(
    "text", [each for each in MARKUP if re.search(r"^<(?:img |pwned|svg on)", each)]
)
def test_what_leaves_its_attribute_or_runs_would_be_found(tmp_path, lawless, text):
    page, _ = lawless
    (tmp_path / "page.html").write_text(f"<!doctype html><title>x</title>{text}", encoding="utf-8")
    with served(tmp_path) as top:
        page.goto(top + "page.html", wait_until="load")
        assert page.evaluate(BROKEN_OUT)


def test_no_hostile_text_runs_asks_for_anything_or_leaves_its_attribute(
    hostile, lawless, record_property
):
    site, put = hostile
    page, asked = lawless
    found = []
    with served(site.root) as top:
        for path in site.pages:
            page.goto(top + path, wait_until="load")
            page.evaluate(
                "() => document.querySelectorAll('details').forEach((d) => d.open = true)"
            )
            found += [f"{path}: {each}" for each in page.evaluate(BROKEN_OUT)]
        found += [each for each in asked if not each.startswith((top, "data:", "blob:"))]
        found += [each for each in asked if re.search("pwned|evil", each)]
    nothing(found)
    record_property("a hostile text stands in a field of the site", put)
    stated = re.findall(
        r"hostile text[^|]*\| ([0-9,]+) \|", (ROOT / "README.md").read_text("utf-8")
    )
    assert [int(each.replace(",", "")) for each in stated] == [put]


def test_hostile_texts_are_shown_and_not_swallowed(hostile):
    site, _ = hostile
    pages = "".join(site.text(page) for page in site.entries)
    for field in ("says", "subject", "over", "unit", "failed", "by", "package", "caption", "tag"):
        assert f"«{field}»" in pages, field


def test_what_is_found_by_the_search_does_not_run(hostile, lawless):
    site, _ = hostile
    page, asked = lawless
    with served(site.root) as top:
        page.goto(top + "index.html?q=pwned", wait_until="load")
        page.keyboard.press("/")
        page.locator("input.md-search__input").fill("pwned")
        page.keyboard.press("End")
        page.wait_for_selector(".md-search-result__link", timeout=60_000)
        nothing(page.evaluate(BROKEN_OUT))
        nothing(each for each in asked if not each.startswith((top, "data:", "blob:")))


@pytest.mark.parametrize("kind", ["html", "HTM", "xhtml", "svg", "SVG", "xml", "mht"])
def test_a_file_that_browsers_run_is_no_part_of_an_artifact(tmp_path, kind):
    lab = Lab(tmp_path)
    artifact = lab.artifact()
    (artifact.folder / f"plot.{kind}").write_text(f"<svg onload={RUN}>", encoding="utf-8")
    faults = [str(fault) for fault in check(lab.repository)]
    assert f"artifacts/row-sum/plot.{kind}: on the site a browser would run" in "\n".join(faults)


@pytest.mark.parametrize("kind", ["markdown"])
def test_markdown_of_an_artifact_makes_no_page(tmp_path, kind):
    shutil.copytree(ROOT / "site_src", tmp_path / "site_src")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    for path in (tmp_path / "site_src").rglob("*.md"):
        path.write_text("# A page\n", "utf-8")
    lab = Lab(tmp_path)
    artifact = lab.artifact()
    (artifact.folder / f"notes.{kind}").write_text(f"<script>{RUN}</script>\n", encoding="utf-8")
    site = build(tmp_path / "mkdocs.yml", tmp_path / "out")
    assert not [page for page in site.pages if "notes" in page]
