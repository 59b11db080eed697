"""All that is wrong with a repository in one pass, each with its place and remedy."""

import shutil
import subprocess
import sys
import time

import msgspec
import pytest
from factory import FRONT, Lab, lab_with_entry, measured, record_of, timed

from warplog.check import check
from warplog.entry import fill, load
from warplog.record import dumps


@pytest.fixture
def lab(tmp_path):
    """A repository in which all is right."""
    lab = lab_with_entry(tmp_path / "lab")
    fill_in(lab, lab.root / "entries" / "2026-12-02-one-sum.md")
    return lab


def fill_in(lab, path):
    path.write_text(fill(load(path, lab.repository), lab.repository), encoding="utf-8", newline="")


def found(lab):
    return [str(fault) for fault in check(lab.repository)]


def entry_findings(lab):
    """The faults of the entry beside a text that is not filled."""
    return [each for each in found(lab) if "is not the record's" not in each]


def only(faults):
    assert len(faults) == 1, faults
    return faults[0]


def test_a_repository_that_is_right_has_no_faults(lab):
    assert found(lab) == []


def test_an_empty_repository_has_no_faults(tmp_path):
    assert found(Lab(tmp_path / "lab")) == []


def test_a_stale_record_names_what_changed_and_is_one_fault(lab):
    (lab.root / "artifacts/row-sum/kernel.py").write_text("def total(values): ...\n")
    fault = only(found(lab))
    assert fault.startswith("artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json: ")
    assert "kernel.py changed" in fault
    assert "-- row-sum --publish" in fault


def test_an_older_record_may_be_of_older_source(lab):
    artifact = lab.artifact()
    (artifact.folder / "kernel.py").write_text("def total(values): ...\n")
    lab.publish(artifact, timed(batch=31), recorded="2026-12-03T10:15:00Z")
    assert found(lab) == []


def test_going_back_to_older_source_makes_its_record_count_again(lab):
    artifact = lab.artifact()
    before = (artifact.folder / "kernel.py").read_text()
    (artifact.folder / "kernel.py").write_text("def total(values): ...\n")
    lab.publish(artifact, timed(batch=31), recorded="2026-12-03T10:15:00Z")
    (artifact.folder / "kernel.py").write_text(before)
    assert found(lab) == []


def test_a_device_without_a_record_leaves_claims_untested(lab):
    front = FRONT.replace("device: nvidia-h200", "device: nvidia-b200")
    lab.entry(front, "\nNothing.\n")
    fault = only(found(lab))
    assert fault.startswith("entries/2026-12-02-one-sum.md:9: claim 'fast': untested: there is no")
    assert "on nvidia-b200" in fault


def test_a_claim_whose_subject_failed_is_untested(tmp_path):
    lab = Lab(tmp_path / "lab")
    failed = measured("latency", "kernel", None, failed="\x1b[31mwrong\nat row 3", batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31)[1:], failed])
    lab.entry(body="\nNothing.\n")
    fault = only(found(lab))
    assert "untested: 'kernel' failed: wrong" in fault
    assert "\x1b" not in fault
    assert "\n" not in fault


def test_a_draft_need_not_be_tested(lab):
    front = FRONT.replace("device: nvidia-h200", "device: nvidia-b200") + "draft: true\n"
    lab.entry(front, "\nNothing.\n")
    assert found(lab) == []


@pytest.mark.parametrize("text", ["?", "11×", "12 ×"])
def test_a_number_that_is_not_the_records_asks_for_fill(lab, text):
    lab.entry(body=f"\n[{text}](#fast)\n")
    assert only(found(lab)) == (
        f"entries/2026-12-02-one-sum.md:20: the text [{text}](#fast) is not the record's 12×; "
        "run `nox -s fill -- one-sum`"
    )


@pytest.mark.parametrize(
    "words",
    [
        "33 µs", "33µs", "1.5 ms", "4.1 TB/s", "4\u202f100 GB/s", "12×", "3.2x", "97 %", "12%",
        "700 W", "1980 MHz", "64 KiB", "20 seconds", "2 times faster", "900 TFLOPS", "3 s",
        "**33 µs**", "(33 µs)", "x | 33 µs |",
    ],
)  # fmt: skip
def test_a_number_with_a_unit_needs_a_record_or_a_source(lab, words):
    lab.entry(body=f"\nIt took {words} here.\n")
    fault = only(found(lab))
    assert fault.startswith("entries/2026-12-02-one-sum.md:20: the number '")
    lab.entry(body=f"\n[They](https://example.org/x) saw {words} there.\n")
    assert found(lab) == []


@pytest.mark.parametrize(
    "words",
    [
        "31 calls", "1152-byte rows", "64 × 128", "64x128", "the 1990s", "sm_90", "H200", "fp32",
        "3 times", "`33 µs`", "2^3 rows", "<!-- 33 µs -->", "version 2.11",
    ],
)  # fmt: skip
def test_sizes_and_code_are_no_measured_numbers(lab, words):
    lab.entry(body=f"\nWe saw {words} here.\n\n```\n33 µs\n```\n")
    assert found(lab) == []


def test_a_link_within_the_page_is_no_external_source(lab):
    lab.entry(body="\n## How\n\nSee [how](#how): 33 µs.\n")
    assert "'33 µs' stands on nothing" in only(found(lab))


def test_a_summary_cannot_follow_the_record(lab):
    lab.entry(FRONT.replace("One sentence", "It is 12× faster"), "\nNothing.\n")
    assert "2026-12-02-one-sum.md:7: summary: the number '12×'" in only(found(lab))


REFUTED = "at_least: 20\n    reported: {value: 32.9, device: nvidia-b200, by: the post}"


def test_a_refuted_report_without_a_cause_is_unfinished(lab):
    lab.entry(FRONT.replace("at_least: 10", REFUTED))
    fault = only(entry_findings(lab))
    assert fault.startswith(
        "entries/2026-12-02-one-sum.md:9: claim 'fast': refuted without a cause"
    )
    assert fault.endswith("add `cause:` with one line")


@pytest.mark.parametrize(
    "claim",
    [
        f"{REFUTED}\n    cause: The post timed an empty queue.",
        REFUTED.replace("20", "10"),
        "at_least: 20",
    ],
    ids=["it has a cause", "it holds", "it is our own prediction"],
)
def test_only_a_refuted_report_needs_a_cause(lab, claim):
    lab.entry(FRONT.replace("at_least: 10", claim))
    assert entry_findings(lab) == []


def test_a_draft_needs_no_cause(lab):
    lab.entry("draft: true\n" + FRONT.replace("at_least: 10", REFUTED))
    assert entry_findings(lab) == []


def test_a_cause_cannot_follow_the_record(lab):
    claim = f"{REFUTED}\n    cause: It takes 12 µs more."
    lab.entry(FRONT.replace("at_least: 10", claim))
    found = only(entry_findings(lab))
    assert "one-sum.md:17: claim 'fast': cause: the number '12 µs' would not follow" in found


def test_a_figure_that_cannot_be_drawn_is_found(lab):
    block = "kind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: Flat\n"
    lab.entry(body=f"\n```figure\n{block}```\n")
    assert only(found(lab)).startswith("entries/2026-12-02-one-sum.md:20: figure: 'kernel' has one")


def test_an_artifact_without_an_entry(lab):
    lab.artifact("lonely")
    assert "artifacts/lonely: no entry tells" in only(found(lab))


def test_an_entry_with_a_fault_still_names_its_artifact(lab):
    lab.entry(FRONT.replace("title: One", "titel: One"), "\nNothing.\n")
    assert "'titel'" in only(found(lab))


def test_an_artifact_that_is_a_link_out_of_the_repository(lab, tmp_path):
    outside = Lab(tmp_path / "outside").artifact("far")
    (lab.root / "artifacts" / "far").symlink_to(outside.folder)
    assert any("artifacts/far: the link leaves the repository" in fault for fault in found(lab))


def test_a_record_that_is_a_link_out_of_the_artifact(lab, tmp_path):
    path = lab.root / "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    shutil.move(path, tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    assert any("the link leaves the artifact" in fault for fault in found(lab))


def test_a_folder_that_no_command_can_run(lab):
    (lab.root / "artifacts" / "half").mkdir()
    assert "artifacts/half: has no reproduce.py" in only(found(lab))


@pytest.mark.parametrize("where", ["x.json", "NVIDIA H200/x.json", "a/b/x.json", "cpu/notes.txt"])
def test_a_file_where_no_record_can_be(lab, where):
    path = lab.root / "artifacts/row-sum/records" / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    assert f"records/{where}: is not where a record can be" in only(found(lab))


def test_every_record_that_cannot_be_read_is_named(lab):
    good = lab.root / "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    text = good.read_text()
    (good.parent / "2026-12-03T101500Z.json").write_text(text[:200])
    (good.parent / "2026-12-04T101500Z.json").write_text(text.replace("83.1", "38.1"))
    (good.parent / "2026-12-05T101500Z.json").write_text(text)
    faults = found(lab)
    assert len(faults) == 3, faults
    assert "not strict JSON" in faults[0]
    assert "edited by hand" in faults[1]
    assert "is filed as" in faults[2]


def test_a_record_of_another_artifact_is_named(lab):
    record = msgspec.structs.replace(record_of(lab.artifact(), timed(batch=31)), artifact="other")
    path = lab.root / "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    path.write_text(dumps(record))
    assert "is a record of 'other'" in found(lab)[0]


def test_a_link_out_of_an_artifact_is_named_once(lab, tmp_path):
    (tmp_path / "far").write_text("x")
    (lab.root / "artifacts/row-sum/far.py").symlink_to(tmp_path / "far")
    assert any("far.py: the link leaves the artifact" in fault for fault in found(lab))


@pytest.mark.parametrize(
    ("metric", "value"), [("latency", 0.0), ("latency", 10**400), ("rows", 10**400)]
)
def test_a_resealed_record_with_a_number_that_arithmetic_does_not_survive(lab, metric, value):
    row = measured(metric, "kernel", [value] * 6, unit="s", batch=31)
    record = record_of(lab.artifact(), [row, *timed(batch=31)[1:]])
    path = lab.root / "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    path.write_text(dumps(record))
    line = 1 + path.read_text()[: path.read_text().index('"metric"')].count("\n")
    assert any(
        f"{path.name}:{line}: {metric} of" in fault or "beyond" in fault for fault in found(lab)
    )


def test_a_record_nested_too_deep_and_a_bound_too_large_are_faults(lab):
    path = lab.root / "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    path.write_text("[" * 100_000)
    lab.entry(FRONT.replace("at_least: 10", f"at_least: 1{'0' * 400}"))
    faults = found(lab)
    assert "nested too deep" in faults[0]
    assert "at_least: is not finite" in faults[1]


@pytest.mark.parametrize("text", ["<!-- ", "1,", "1 ms ", "[12×](#fast) ", "![", "<a>\n"])
def test_checking_takes_time_in_proportion_to_the_text(lab, text):
    lab.entry(body="\n" + text * (75_000 // len(text)) + "\n")
    start = time.perf_counter()
    found(lab)
    assert time.perf_counter() - start < 4


def test_many_faults_in_the_front_matter_take_one_reading(lab):
    bad = "".join(f"  c{n}: {{says: x, metric: y, subject: z}}\n" for n in range(1500))
    lab.entry(FRONT.replace("values:", bad + "values:"))
    start = time.perf_counter()
    assert len(found(lab)) >= 1500
    assert time.perf_counter() - start < 4


def test_faults_are_ordered_by_file_and_line(lab):
    lab.entry(body="\n1 ms\n\n2 ms\n" + "\n" * 10 + "3 ms\n")
    lab.artifact("lonely")
    places = [fault.place for fault in check(lab.repository)]
    assert places == [
        "artifacts/lonely",
        *(f"entries/2026-12-02-one-sum.md:{line}" for line in (20, 22, 33)),
    ]


def test_reading_needs_no_torch():
    """An environment without torch can check, fill and build pages."""
    modules = "check, entry, figure, page, evidence, output"
    code = (
        f"import sys; sys.modules['torch'] = None; from warplog import {modules}; "
        "assert not {'torch', 'triton', 'numpy', 'mkdocs'} & "
        "{name for name, module in sys.modules.items() if module}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_thousand_entries_take_less_than_ten_seconds(tmp_path):
    """Ten artifacts, six claims an entry, real prose: the budget of the design, on any machine."""
    lab = Lab(tmp_path / "lab")
    for number in range(10):
        artifact = lab.artifact(f"art-{number}")
        rows = [row for batch in range(1, 9) for row in timed(batch=batch)]
        lab.publish(
            artifact,
            [msgspec.structs.replace(row, runs=[run * 25 for run in row.runs]) for row in rows],
        )
    claims = "".join(
        f"  c{n}: {{says: Fast., metric: speedup, subject: kernel, over: peer, "
        f"workload: batch={n}, at_least: 10}}\n"
        for n in range(1, 7)
    )
    prose = "".join(f"It ran [12×](#c{n}) as fast.\n" for n in range(1, 7))
    filler = "The kernel reads each row once, and the host does nothing while it waits.\n" * 100
    for number in range(1000):
        front = FRONT.partition("claims:")[0].replace("row-sum", f"art-{number % 10}")
        body = f"\n{prose}\n{filler}\n```python\nx = 1\n```\n"
        lab.entry(front + "claims:\n" + claims, body, f"2026-12-02-e{number}.md")
    start = time.perf_counter()
    faults = found(lab)
    taken = time.perf_counter() - start
    shutil.rmtree(lab.root)
    assert faults == []
    assert taken < 10
