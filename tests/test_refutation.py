"""What did not hold is listed with who reported it, what was measured, and why."""

from factory import Lab
from shelf import CLAIMS, copies, golden, html, journal, shelf, write_entry, write_record

from warplog import evidence, refutation
from warplog.journal import Journal


def test_a_reported_figure_that_was_refuted_comes_first(tmp_path):
    theirs, ours = html(refutation.page(journal(shelf(tmp_path)))).split('<h2 id="predicted">')
    assert 'href="entries/first.html#fast"' in theirs
    assert "32.9×, on nvidia-b200, by" in theirs
    assert '<a href="https://x.example/" rel="noopener">a post</a>' in theirs
    assert "at least 10×" in theirs
    assert "Twice the bandwidth feeds the peer alone." in theirs
    assert 'href="entries/second.html#fast"' in ours
    assert "Reported" not in ours


def test_it_says_on_which_gpu_it_held_and_on_which_not(tmp_path):
    page = html(refutation.page(journal(shelf(tmp_path))))
    item = page.partition('href="entries/first.html#fast"')[2].partition("</li>")[0]
    assert "</span> supported</span> 12.0× on H200<br>" in item
    assert "</span> refuted</span> 5.99\u20136.01× on B200<" in item


def test_what_must_be_said_of_a_record_stands_beside_its_device(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "PROTOCOL", 2)
    page = html(refutation.page(journal(shelf(tmp_path))))
    item = page.partition('href="entries/second.html#fast"')[2].partition("</li>")[0]
    assert 'on H200 <span class="wl-about">older protocol</span><br>' in item
    assert 'on RTX 5090 <span class="wl-about">disturbed, older protocol</span>' in item
    assert '<div class="wl-about">disputed between records</div>' in item


def test_the_address_of_a_report_is_written_as_on_its_entry(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain", faster=0.5)
    reported = CLAIMS["fast"]["reported"] | {"url": "https://x.example/a b?c&d"}
    write_entry(lab, "plain", claims={"fast": CLAIMS["fast"] | {"reported": reported}})
    page = html(refutation.page(journal(lab)))
    assert '<a href="https://x.example/a%20b?c&amp;d" rel="noopener">a post</a>' in page


def test_a_refutation_without_a_cause_says_that_it_is_not_explained(tmp_path):
    ours = html(refutation.page(journal(shelf(tmp_path)))).split('<h2 id="predicted">')[1]
    assert "not explained yet" in ours


def test_it_counts_how_many_reports_were_asked(tmp_path):
    page = html(refutation.page(journal(shelf(tmp_path))))
    assert (
        "2 claims of this journal test what somebody else reported; 1 of them did not hold" in page
    )


def test_where_nothing_was_refuted_it_says_so(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    write_entry(lab, "plain")
    page = html(refutation.page(journal(lab)))
    assert "1 claim of this journal tests" in page
    assert "what somebody else reported; none was refuted." in page
    assert "Nothing that somebody else reported was refuted here so far." in page
    assert "None of our own predictions was refuted so far." in page


def test_without_an_entry_it_is_an_honest_page():
    assert "No claim of this journal tests a report" in html(refutation.page(Journal(())))


def test_older_refutations_are_counted_by_their_entry(tmp_path):
    outcome = journal(shelf(tmp_path)).outcomes[-1]
    page = html(refutation.page(copies(outcome, refutation.IN_FULL + 2)))
    assert page.count("<dl") == refutation.IN_FULL
    last = f"copy-{refutation.IN_FULL + 1}"
    assert f'<a href="entries/{last}.html#claims">1 claim</a>' in page


def test_bounds_are_said_in_words(tmp_path):
    lab = Lab(tmp_path)
    write_record(lab, "plain")
    claims = {
        "low": {"at_most": 2},
        "same": {"equals": 2},
        "within": {"between": [1, 2]},
    }
    about = {
        key: value for key, value in CLAIMS["fast"].items() if key not in ("at_least", "reported")
    }
    write_entry(lab, "plain", claims={name: about | bound for name, bound in claims.items()})
    page = html(refutation.page(journal(lab)))
    for words in ("at most 2×", "exactly 2×", "between 1× and 2×"):
        assert f"<dd>{words}</dd>" in page


def test_the_page_is_as_it_was(tmp_path):
    golden("did-not-hold", html(refutation.page(journal(shelf(tmp_path)))))
