"""The matrix says all without script: a row an entry, a row a claim, a column a GPU."""

import re

from factory import Lab
from shelf import copies, golden, html, journal, shelf, write_entry, write_record

from warplog import evidence, matrix
from warplog.journal import Journal


def rows(page):
    """The marks of each row and its cells."""
    body = html(page).partition("<tbody>")[2]
    return [
        (re.match(r'<tr (data-\w+)="([^"]*)"', row).groups(), row.split("<td")[1:])
        for row in body.split("</tr>")[:-1]
    ]


def test_an_entry_is_followed_by_its_claims(tmp_path):
    found = [mark for mark, _ in rows(matrix.page(journal(shelf(tmp_path))))]
    assert found[:3] == [
        ("data-entry", "third"),
        ("data-claim", "third#fast"),
        ("data-claim", "third#right"),
    ]
    assert len(found) == 9


def test_a_row_has_a_cell_for_every_gpu(tmp_path):
    found = journal(shelf(tmp_path))
    assert list(matrix.columns(found)) == ["nvidia-h200", "nvidia-b200", "nvidia-rtx-5090"]
    assert all(len(cells) == 3 for _, cells in rows(matrix.page(found)))


def test_a_cell_has_the_verdict_and_the_interval(tmp_path):
    cells = dict(rows(matrix.page(journal(shelf(tmp_path)))))["data-claim", "first#fast"]
    assert 'data-verdict="supported"' in cells[0]
    assert 'data-verdict="refuted"' in cells[1]
    assert "5.99\u20136.01×" in cells[1]
    assert "data-verdict" not in cells[2]
    assert "not measured" in cells[2]


def test_a_device_without_a_record_has_a_column_where_an_entry_is_about_it(tmp_path):
    lab = Lab(tmp_path)
    lab.artifact("bare")
    write_entry(lab, "bare", device="nvidia-b200")
    ((_, cells), *_) = rows(matrix.page(journal(lab)))
    assert "no record yet" in cells[0]
    assert 'data-verdict="untested"' in cells[0]


def test_a_stale_record_says_so_in_its_column(tmp_path):
    cells = dict(rows(matrix.page(journal(shelf(tmp_path)))))["data-entry", "third"]
    assert "2 claims; stale" in cells[0]


def test_every_mark_of_a_record_stands_in_the_row_of_its_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "PROTOCOL", 2)
    cells = dict(rows(matrix.page(journal(shelf(tmp_path)))))["data-entry", "second"]
    assert "2 claims; disturbed; older protocol" in cells[2]


def test_a_disputed_claim_says_so_in_its_row(tmp_path):
    text = html(matrix.page(journal(shelf(tmp_path))))
    disputed = re.findall(r'data-claim="([^"]*)"><th[^>]*><a[^<]*</a><span[^<]*disputed', text)
    assert disputed == ["second#fast", "first#fast"]


def test_claims_beyond_the_limit_are_counted_in_the_row_of_their_entry(tmp_path):
    (outcome, *_) = journal(shelf(tmp_path)).outcomes
    each = len(outcome.entry.claims)
    found = rows(matrix.page(copies(outcome, 500)))
    claims = [mark for mark, _ in found if mark[0] == "data-claim"]
    assert len(found) - len(claims) == 500
    assert len(claims) == matrix.CLAIMS_SHOWN
    assert claims[0] == ("data-claim", "copy-0#fast")
    assert claims[-1] == ("data-claim", f"copy-{matrix.CLAIMS_SHOWN // each - 1}#right")


def test_below_the_limit_nothing_is_said_of_it(tmp_path):
    found = journal(shelf(tmp_path))
    assert "rows of their own" not in html(matrix.page(found))
    assert "rows of their own" in html(matrix.page(copies(found.outcomes[0], 200)))


def test_a_thousand_entries_stay_below_a_megabyte_and_a_half(tmp_path):
    outcome = journal(shelf(tmp_path)).outcomes[-1]
    half, whole = (len(html(matrix.page(copies(outcome, count)))) for count in (500, 1000))
    assert whole < 1_500_000
    assert whole < 2 * half


def test_the_filters_know_every_verdict_tag_and_gpu(tmp_path):
    page = html(matrix.page(journal(shelf(tmp_path))))
    assert page.count('<form id="wl-filter"') == 1
    assert '<option value="nvidia-rtx-5090">NVIDIA GeForce RTX 5090</option>' in page
    assert '<option value="c-f1deb7">C++</option>' in page
    for name in ("verdict", "tag", "gpu"):
        assert f'<select name="{name}"><option value="">' in page
    assert "3 of 3 entries and 6 of 6 claims</output>" in page


def test_the_theme_is_told_which_script_works_the_filters(tmp_path):
    page = matrix.page(journal(shelf(tmp_path)))
    assert "script: assets/matrix.js\n" in page.markdown
    assert "<script" not in html(page)


def test_an_entry_without_claims_has_a_row_too(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    write_entry(lab, "plain", claims={})
    ((_, cells),) = rows(matrix.page(journal(lab)))
    assert "no claims" in cells[0]


def test_without_an_entry_there_is_no_table():
    assert "No entry yet" in html(matrix.page(Journal(())))


def test_the_matrix_is_as_it_was(tmp_path):
    golden("matrix", html(matrix.page(journal(shelf(tmp_path)))))
