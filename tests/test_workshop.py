"""What is kept of an entry is what would be made of it now; nothing old and nothing foreign is shown."""

import os
import pickle
from pathlib import Path

import pytest
from factory import BODY, FRONT, lab_with_entry

from warplog import crew as crews
from warplog import workshop as workshops
from warplog.cache import Cache, digest
from warplog.crew import Crew
from warplog.fault import Fault, Faults
from warplog.site import Site
from warplog.store import write_whole
from warplog.workshop import Workshop

SITE = Site("Warplog", "A journal.", "https://warplog.example/")
FONTS = Path(__file__).parents[1] / "site_src/assets/fonts"
SOURCE = "\n```source\nfile: kernel.py\nregion: kernel\n```\n"
FIGURE = "kind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: x\n"


@pytest.fixture
def lab(tmp_path):
    lab = lab_with_entry(tmp_path / "lab")
    lab.entry(body=BODY + SOURCE)
    return lab


@pytest.fixture
def shop(lab):
    """Opens a workshop anew, as the next build does."""
    return lambda: Workshop(lab.repository, Cache(lab.root / "kept"))


@pytest.fixture
def path(lab):
    return lab.root / "entries/2026-12-02-one-sum.md"


@pytest.fixture
def nothing_is_made(monkeypatch):
    """From now on, what is not kept is a failure."""

    def forbid():
        def made(*_, **__):
            pytest.fail("it was made again")

        monkeypatch.setattr(workshops, "load", made)
        monkeypatch.setattr(workshops.pages, "write", made)

    return forbid


def test_what_is_kept_is_what_was_made(shop, path, nothing_is_made):
    made = shop().outcome(path)
    page = shop().page(made)
    nothing_is_made()
    kept = shop().outcome(path)
    assert kept == made
    assert shop().page(kept) == page
    assert (
        kept.columns[0].evidence.record.measurements == made.columns[0].evidence.record.measurements
    )
    assert kept.columns[0].evidence is kept.known.devices["nvidia-h200"]


def test_without_a_cache_the_result_is_the_same(lab, shop, path):
    page = shop().page(shop().outcome(path))
    alone = Workshop(lab.repository, Cache(None))
    assert alone.page(alone.outcome(path)) == page


def test_a_changed_kernel_is_shown_at_once(lab, shop, path):
    shop().page(shop().outcome(path))
    kernel = lab.root / "artifacts/row-sum/kernel.py"
    kernel.write_text(kernel.read_text().replace("values.sum()", "values.sum().item()"))
    outcome = shop().outcome(path)
    assert not outcome.own.evidence.fresh
    assert "item" in "".join(shop().page(outcome).html.values())


def test_other_code_of_ours_keeps_nothing(shop, path, monkeypatch):
    before = shop().key(path)
    monkeypatch.setattr(workshops, "made_by", lambda: "another version")
    assert shop().key(path) != before


def test_faults_are_found_at_every_build(lab, shop, path):
    lab.entry(FRONT.replace("metric: latency", "metric: latncy"))
    for _ in range(2):
        with pytest.raises(Faults, match="latncy"):
            shop().outcome(path)
    lab.entry(body=f"\n```figure\n{FIGURE}```\n")
    for _ in range(2):
        with pytest.raises(Fault, match="has one point"):
            shop().page(shop().outcome(path))


class Foreign:
    """Calls a function when it is read back."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "foreign",
    [
        lambda ran: Foreign(os.system, f"touch '{ran}'"),
        lambda ran: Foreign(write_whole, ran, "by a function of ours"),
        str,
    ],
)
def test_a_foreign_outcome_runs_nothing_and_is_made_anew(lab, shop, path, tmp_path, foreign):
    content = pickle.dumps(foreign(tmp_path / "ran"))
    Cache(lab.root / "kept").put(digest("outcome", shop().key(path)), content)
    assert shop().outcome(path).entry.slug == "one-sum"
    assert not (tmp_path / "ran").exists()


def test_a_broken_page_is_made_anew(lab, shop, path):
    made = shop().page(shop().outcome(path))
    Cache(lab.root / "kept").put(digest("page", shop().key(path)), b"\xc1")
    assert shop().page(shop().outcome(path)) == made


@pytest.fixture
def many(lab, monkeypatch):
    """More entries than one process should make alone, one of them wrong."""
    monkeypatch.setattr(crews, "ENTRIES_AT_LEAST", 2)
    monkeypatch.setattr(crews, "processors", lambda: 2)
    for day in range(3, 7):
        lab.entry(
            FRONT.replace("12-02", f"12-{day:02}"), BODY + SOURCE, f"2026-12-{day:02}-sum-{day}.md"
        )
    lab.entry(FRONT.replace("12-02", "12-08"), "\n[?](#ghost)\n", "2026-12-08-wrong.md")
    return lab


@pytest.fixture
def crew(many, shop):
    crew = Crew(shop(), many.root / "kept", "", SITE, FONTS)
    yield crew
    crew.close()


def test_helpers_make_what_one_process_would(many, shop, crew, nothing_is_made):
    alone = Workshop(many.repository, Cache(None))
    paths = [path for path in alone.paths if "wrong" not in path.name]
    pages = [alone.page(alone.outcome(path)) for path in paths]
    crew.start()
    nothing_is_made()
    helped = shop()
    helped.before_page = crew.wait_for
    assert [helped.page(helped.outcome(path)) for path in paths] == pages


def test_what_a_helper_could_not_make_is_heard_here(crew, shop):
    crew.start()
    with pytest.raises(Faults, match="no claim, value or heading 'ghost'"):
        shop().outcome(shop().paths[-1])


@pytest.mark.usefixtures("many")
def test_helpers_that_die_leave_the_work_to_us(shop, crew, monkeypatch):
    monkeypatch.setattr(crews.sys, "executable", "/bin/false")
    crew.start()
    shop = shop()
    shop.before_page = crew.wait_for
    assert shop.page(shop.outcome(shop.paths[0])).markdown


def test_helpers_end_with_the_build(crew):
    crew.start()
    helpers = list(crew._helpers)
    assert helpers
    crew.close()
    assert all(helper.returncode is not None for helper in helpers)


def test_where_nothing_can_be_kept_nobody_helps(many, shop):
    (many.root / "kept").write_text("a file in the way")
    crew = Crew(shop(), many.root / "kept", "", SITE, FONTS)
    crew.start()
    assert crew._helpers == []


def test_few_entries_need_no_helpers(lab, shop):
    crew = Crew(shop(), lab.root / "kept", "", SITE, FONTS)
    crew.start()
    assert crew._helpers == []
