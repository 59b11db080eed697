"""The search box finds what a person who reads kernels types, over the network and from a disk."""

import pytest

pytestmark = pytest.mark.browser

# What is typed into the box of the lab, all of it on its plain entry.
LAB = [
    "cp.async",
    "tl.load",
    "num_stages",
    "_STERound",
    "wait_group",
    "async",
    "STERound",
    "stages",
    "swizzled",
    "H200",
    "MI300X",
    "outruns a plain loop",
    "hides the latency",
    "triton",
]
JOURNAL = {
    "cp.async": "entries/ceilings.html",
    "async": "entries/ceilings.html",
    "H200": "entries/ceilings.html",
    "tl.load": "entries/",
    "datasheet": "entries/ceilings.html",
    "padded": "entries/topk-stable-sort.html",
}


SAYS = "words => document.querySelector('.md-search-result__meta').textContent.includes(words)"
LISTED = """() => {
  const none = document.querySelector(".md-search-result__meta").textContent.startsWith("No ");
  return none || document.querySelector(".md-search-result__link");
}"""


class Search:
    """The search box of an opened page."""

    def __init__(self, page):
        self.page = page
        page.keyboard.press("/")
        page.wait_for_function("() => document.activeElement?.matches('.md-search__input')")
        page.wait_for_function(
            "() => !/nitializ/.test(document.querySelector('.md-search-result__meta').textContent)"
        )

    def results(self, words):
        """The addresses of what is found for `words`, from the site's top, and their text."""
        field = self.page.locator("input.md-search__input")
        field.fill("")
        self.page.wait_for_function(SAYS, arg="Type to start searching")
        field.fill(words)
        field.press("End")  # the theme searches when a key comes up
        self.page.wait_for_function(SAYS, arg="atching document")
        self.page.wait_for_function(LISTED)
        links = self.page.locator(".md-search-result__link")
        found = links.evaluate_all("all => all.map((each) => [each.href, each.textContent])")
        return [(href.partition("?")[0].partition("#")[0], text) for href, text in found]


@pytest.fixture(params=["served", "file"])
def lab_search(request, lab, lab_url, opened):
    """The search box of the lab, once over http and once from the disk."""
    top = lab_url if request.param == "served" else lab.root.as_uri() + "/"
    return Search(opened(top + "index.html"))


def test_the_search_finds_identifiers_gpus_and_claims(lab_search):
    lost = [
        words
        for words in LAB
        if not any(href.endswith("/entries/plain.html") for href, _ in lab_search.results(words))
    ]
    assert not lost


def test_the_search_finds_nothing_for_a_word_that_is_nowhere(lab_search):
    assert lab_search.results("zzyzxq") == []


def test_the_search_finds_the_best_first(lab_search):
    """A word of one entry's title leads to that entry first."""
    assert lab_search.results("ring of tiles")[0][0].endswith("/entries/plain.html")


def test_a_result_leads_to_its_page(lab_search):
    lab_search.results("_STERound")
    lab_search.page.keyboard.press("ArrowDown")
    lab_search.page.keyboard.press("Enter")
    lab_search.page.wait_for_url("**/entries/plain.html*")
    assert lab_search.page.locator("h1").inner_text().startswith("A ring of tiles")


def test_lists_of_entries_are_not_in_the_index(lab_search):
    """Who searches is led to entries, not to the pages that list them."""
    found = {href.rsplit("/", 1)[-1] for href, _ in lab_search.results("H200")}
    assert not found & {"matrix.html", "archive.html", "tags.html", "index.html"}


def test_hostile_text_is_text_among_the_results(lab_search):
    found = lab_search.results("onmouseover")
    assert any("onmouseover" in text for _, text in found)
    assert lab_search.page.evaluate("() => typeof window.pwned") == "undefined"
    inner = "() => document.querySelectorAll('.md-search-result :is(img, script)').length"
    assert lab_search.page.evaluate(inner) == 0


def test_the_search_of_the_journal_finds_its_entries(journal_url, opened):
    search = Search(opened(journal_url + "index.html"))
    lost = [
        words
        for words, page in JOURNAL.items()
        if not any(page in href for href, _ in search.results(words))
    ]
    assert not lost
