"""A device's page says what it was measured to reach, from which record, and what is missing."""

import re

import pytest
from factory import H200, Lab, measured
from shelf import golden, html, journal, shelf, write_ceilings, write_entry, write_record

from warplog import evidence, gpu
from warplog.journal import Journal
from warplog.quantity import ceiling
from warplog.summit import ceiling_of, launches, operations


def record_of_ceilings(lab):
    write_ceilings(lab)
    write_entry(lab, "ceilings", claims={})
    return journal(lab).outcomes[0].own.evidence.record


@pytest.mark.parametrize("metric", ["bandwidth", "rate"])
def test_the_ceiling_is_the_one_that_floors_are_made_of(tmp_path, metric):
    record = record_of_ceilings(Lab(tmp_path))
    best = ceiling_of(record, metric)
    assert best.value == ceiling(record, metric)
    assert best.interval.high == pytest.approx(best.value)


def test_a_ceiling_names_the_subject_and_the_workload_that_reached_it(tmp_path):
    best = ceiling_of(record_of_ceilings(Lab(tmp_path)), "bandwidth")
    assert best.measurement.subject == "loads"
    assert best.measurement.workload == {"operation": "read", "row_bytes": 4096}


def test_what_was_not_measured_has_no_ceiling(tmp_path):
    lab = Lab(tmp_path)
    lab.publish(
        lab.artifact("ceilings"), [measured("latency", "loads", [1e-6] * 6, operation="read")]
    )
    write_entry(lab, "ceilings", claims={})
    record = journal(lab).outcomes[0].own.evidence.record
    assert ceiling_of(record, "bandwidth") is None
    assert "not measured" in html(gpu.pages(journal(lab))["gpus.md"])


def test_each_kind_of_operation_has_its_best(tmp_path):
    best = operations(record_of_ceilings(Lab(tmp_path)))
    found = {(dict(each.kind)["operation"], each.measurement.cache, each.metric) for each in best}
    assert ("l2-read", "warm", "bandwidth") in found
    assert len(best) == 4
    assert [each.value for each in best if dict(each.kind).get("dtype") == "fp8"] == [
        pytest.approx(1.5e15 / 0.99)
    ]


def test_each_way_to_launch_has_its_least_time(tmp_path):
    best = launches(record_of_ceilings(Lab(tmp_path)))
    found = {(each.measurement.subject, each.metric): each.measurement.workload for each in best}
    assert found["launch", "device_time"] == {"kernels": 1}
    assert len(best) == 3


def test_every_measured_device_has_a_page_and_stands_in_the_list(tmp_path):
    pages = gpu.pages(journal(shelf(tmp_path)))
    assert list(pages) == [
        "gpus.md",
        "gpus/nvidia-h200.md",
        "gpus/nvidia-b200.md",
        "gpus/nvidia-rtx-5090.md",
    ]
    assert re.findall(r'href="(gpus/[^"]+)"', html(pages["gpus.md"])) == [
        "gpus/nvidia-h200.html",
        "gpus/nvidia-b200.html",
        "gpus/nvidia-rtx-5090.html",
    ]


def test_a_device_without_ceilings_says_so(tmp_path):
    page = html(gpu.pages(journal(shelf(tmp_path)))["gpus/nvidia-b200.md"])
    assert "The ceilings of this device have not been measured" in page
    assert "TB/s" not in page


def test_stale_ceilings_are_not_shown_and_said_to_be_stale(tmp_path):
    lab = shelf(tmp_path)
    write_entry(lab, "ceilings", claims={})
    (lab.root / "artifacts/ceilings/kernel.py").write_text("changed = True\n", encoding="utf-8")
    page = html(gpu.pages(journal(lab))["gpus/nvidia-h200.md"])
    assert "There is a record, but the record is stale: kernel.py changed" in page
    assert "TB/s" not in page


def test_the_ceilings_lead_to_their_record_and_to_the_entry_that_tells_of_them(tmp_path):
    lab = shelf(tmp_path)
    record = "../artifacts/ceilings/records/nvidia-h200/2026-12-02T101500Z.json"
    assert f'href="{record}"' in html(gpu.pages(journal(lab))["gpus/nvidia-h200.md"])
    write_entry(lab, "ceilings", claims={})
    page = html(gpu.pages(journal(lab))["gpus/nvidia-h200.md"])
    assert 'href="../entries/ceilings.html"' in page


def test_what_must_be_said_of_the_record_of_ceilings_stands_beside_them(tmp_path, monkeypatch):
    lab = shelf(tmp_path)
    assert "Of these ceilings" not in html(gpu.pages(journal(lab))["gpus.md"])
    monkeypatch.setattr(evidence, "PROTOCOL", 2)
    write_ceilings(lab, disturbed=["a kettle boiled"], recorded="2026-12-03T10:15:00Z")
    pages = gpu.pages(journal(lab))
    for name in ("gpus.md", "gpus/nvidia-h200.md"):
        assert "Of these ceilings: disturbed, older protocol." in html(pages[name])


def test_a_fact_that_the_record_lacks_is_not_shown(tmp_path):
    pages = gpu.pages(journal(shelf(tmp_path)))
    assert ">Multiprocessors<" in html(pages["gpus/nvidia-h200.md"])
    assert ">Multiprocessors<" not in html(pages["gpus/nvidia-rtx-5090.md"])


def test_facts_are_written_for_people(tmp_path):
    lab = Lab(tmp_path)
    facts = {"memory_bytes": 150109880320, "pin_bandwidth": 4.8143e12, "watts_limit": 700.0}
    write_record(lab, "plain", H200 | facts | {"l2_bytes": "sixty", "ecc": "on"})
    write_entry(lab, "plain")
    page = html(gpu.pages(journal(lab))["gpus/nvidia-h200.md"])
    for words in ("140 GiB", "4.81 TB/s", "700 W", "sixty"):
        assert f"<td>{words}</td>" in page


def test_a_device_lists_the_entries_measured_on_it_alone(tmp_path):
    page = html(gpu.pages(journal(shelf(tmp_path)))["gpus/nvidia-rtx-5090.md"])
    assert re.findall(r'href="\.\./entries/(\w+)\.html"', page) == ["second"]
    assert "1 entry: 2 supported" in page
    assert "2 claims <i>disturbed</i>" in page


def test_without_a_record_there_is_an_honest_list():
    assert "Nothing was measured yet" in html(gpu.pages(Journal(()))["gpus.md"])


def test_the_pages_are_as_they_were(tmp_path):
    pages = gpu.pages(journal(shelf(tmp_path)))
    golden("gpus", html(pages["gpus.md"]))
    golden("gpu", html(pages["gpus/nvidia-h200.md"]))
