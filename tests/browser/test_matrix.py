"""The matrix filters by verdict, tag and GPU, and is a plain table where nothing runs."""

import pytest

pytestmark = pytest.mark.browser

ROWS = """() => [...document.querySelectorAll("tr[data-entry], tr[data-claim]")].map((row) => ({
  entry: row.hasAttribute("data-entry") && !row.hasAttribute("data-claim"),
  hidden: row.hidden,
  shown: row.checkVisibility(),
  text: row.textContent + [...row.querySelectorAll("[title], [aria-label]")]
    .map((each) => " " + each.title + " " + each.getAttribute("aria-label")).join(""),
}))"""
CHOOSE = """([name, wanted]) => {
  const controls = [...document.querySelectorAll(`form#wl-filter [name="${name}"]`)];
  const fits = (value, text) => (value + " " + text).toLowerCase().includes(wanted);
  for (const control of controls) {
    if (control.localName === "select") {
      const option = [...control.options].find((each) => fits(each.value, each.text));
      if (!option) return false;
      control.value = option.value;
    } else if (fits(control.value, control.labels[0]?.textContent)) {
      control.click();
      return true;
    } else continue;
    control.dispatchEvent(new Event("input", {bubbles: true}));
    control.dispatchEvent(new Event("change", {bubbles: true}));
    return true;
  }
  return false;
}"""


@pytest.fixture
def matrix(opened, lab_url):
    """The matrix of the lab."""
    return opened(lab_url + "matrix.html")


def filtered(page, name, wanted):
    """The rows after `wanted` was chosen of the filter `name`: shown and hidden claims, and entries."""
    before = page.evaluate(ROWS)
    assert before
    assert not any(row["hidden"] for row in before)
    assert page.evaluate(CHOOSE, [name, wanted]), f"the filter {name} has no {wanted!r}"
    page.wait_for_function("() => document.querySelector('tr[data-claim][hidden]')")
    rows = page.evaluate(ROWS)
    assert all(row["hidden"] is not row["shown"] for row in rows)
    claims = [row for row in rows if not row["entry"]]
    shown = [row["text"] for row in claims if row["shown"]]
    hidden = [row["text"] for row in claims if not row["shown"]]
    assert shown
    assert hidden
    return shown, hidden


def test_a_verdict_leaves_the_claims_that_have_it(matrix):
    shown, hidden = filtered(matrix, "verdict", "refuted")
    assert all("refuted" in text for text in shown)
    assert not any("refuted" in text for text in hidden)


def test_a_tag_leaves_the_claims_of_its_entries(matrix):
    shown, hidden = filtered(matrix, "tag", "lonely-tag")
    assert len(shown) == 1
    assert "The second kernel is twice as fast." in shown[0]
    assert any("tenfold" in text for text in hidden)


def test_a_gpu_leaves_the_claims_that_were_measured_on_it(matrix):
    shown, hidden = filtered(matrix, "gpu", "mi300x")
    assert any("tenfold" in text for text in shown)
    assert any("The second kernel is twice as fast." in text for text in hidden)


def test_two_filters_hold_together(matrix):
    filtered(matrix, "verdict", "refuted")
    assert matrix.evaluate(CHOOSE, ["tag", "lonely-tag"])
    matrix.wait_for_timeout(300)
    shown = [row["text"] for row in matrix.evaluate(ROWS) if row["shown"] and not row["entry"]]
    assert len(shown) == 1


def test_an_entry_without_a_claim_that_is_left_is_hidden_too(matrix):
    filtered(matrix, "tag", "lonely-tag")
    entries = [row for row in matrix.evaluate(ROWS) if row["entry"]]
    assert [row["shown"] for row in entries].count(True) == 1


def test_without_script_the_matrix_is_a_plain_table_of_all_claims(opened, lab_url, matrix):
    plain = opened(lab_url + "matrix.html", java_script_enabled=False)
    rows = plain.evaluate(ROWS)
    assert len(rows) == len(matrix.evaluate(ROWS))
    assert all(row["shown"] for row in rows)
    assert "tenfold" in "".join(row["text"] for row in rows)
    assert plain.locator("table th").count() >= 3
