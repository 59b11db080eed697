"""Machines read what people read: data with its schema, feeds, guides."""

import json
import math

import jsonschema
import msgspec
import pytest
from factory import FRONT, Lab, lab_with_entry, measured, timed
from pages import publish_b200

from warplog import evidence, exchange
from warplog.claim import Verdict, compare
from warplog.dataset import Dataset, schema
from warplog.evidence import Archive
from warplog.journal import read_journal
from warplog.record import Interval
from warplog.site import Site

SITE = Site("Warplog", "A journal & more.", "https://log.example/sub/")


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def journal_of(lab):
    journal, faults = read_journal(Archive(lab.repository))
    assert not faults
    return journal


def files(lab, cards=None, site=SITE):
    """Every file for machines by its address, as text."""
    found = exchange.files(journal_of(lab), site, cards or {})
    return {
        address: content if isinstance(content, str) else content.decode()
        for address, content in found
    }


def dataset(lab):
    return msgspec.json.decode(files(lab)["site.json"], type=Dataset)


def test_the_data_holds_to_its_published_schema(lab):
    found = files(lab)
    published = json.loads(found["site.schema.json"])
    assert published == json.loads(msgspec.json.encode(schema()))
    jsonschema.validate(json.loads(found["site.json"]), published)
    broken = found["site.json"].replace('"supported"', '"proved"', 1)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(broken), published)


def test_an_entry_says_where_it_is_and_what_came_of_each_claim(lab):
    (item,) = dataset(lab).entries
    assert (item.slug, item.date, item.artifact) == ("one-sum", "2026-12-02", "row-sum")
    assert item.address == "entries/one-sum.html"
    assert item.url == "https://log.example/sub/entries/one-sum.html"
    (claim,) = item.claims
    assert claim.url == "https://log.example/sub/entries/one-sum.html#fast"
    assert (claim.metric, claim.over, claim.workload) == ("speedup", "peer", {"batch": 31})
    (judged,) = claim.judged
    assert (judged.device, judged.verdict, judged.unit) == ("nvidia-h200", "supported", "ratio")
    assert (judged.runs, judged.workloads) == (6, 1)


def test_the_verdict_follows_from_the_numbers_that_stand_there(lab):
    """Nothing is rounded, so that who reads the file finds the same verdict."""
    for value in (12, 11.99, 12.000001, 13):
        lab.entry(FRONT.replace("at_least: 10", f"at_least: {value}"))
        (claim,) = dataset(lab).entries[0].claims
        low = -math.inf if claim.bounds.low is None else claim.bounds.low
        high = math.inf if claim.bounds.high is None else claim.bounds.high
        found = compare(Interval(*claim.judged[0].interval), Interval(low, high))
        assert found == claim.judged[0].verdict


def test_an_open_end_is_null_and_the_file_is_strict_json(lab):
    def refuse(constant):
        raise ValueError(constant)

    text = files(lab)["site.json"]
    (claim,) = json.loads(text, parse_constant=refuse)["entries"][0]["claims"]
    assert claim["bounds"] == {"low": 10.0, "high": None}


def test_every_device_has_its_record_and_its_own_verdict(lab):
    slow = [each for each in timed(batch=31) if each.subject != "kernel"]
    slow.append(measured("latency", "kernel", [100e-6] * 6, batch=31))
    artifact = lab.repository.artifact("row-sum")
    lab.publish(artifact, slow, device="nvidia-b200")
    (item,) = dataset(lab).entries
    assert [each.device for each in item.devices] == ["nvidia-h200", "nvidia-b200"]
    assert [each.verdict for each in item.claims[0].judged] == [Verdict.SUPPORTED, Verdict.REFUTED]
    record = "artifacts/row-sum/records/nvidia-b200/2026-12-02T101500Z.json"
    assert item.devices[1].record == record
    assert item.devices[1].record_url == f"https://log.example/sub/{record}"


def test_a_stale_record_is_marked_and_its_claims_are_untested(lab):
    lab.artifact(kernel="changed = True\n")
    (item,) = dataset(lab).entries
    assert (item.devices[0].stale, item.devices[0].changed) == (True, ["kernel.py"])
    (judged,) = item.claims[0].judged
    assert (judged.verdict, judged.interval, judged.unit) == ("untested", None, None)
    assert "stale" in judged.reason


def test_a_disturbed_record_says_by_what(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), timed(batch=31), disturbed=["another process on the GPU"])
    lab.entry()
    assert dataset(lab).entries[0].devices[0].disturbed == ["another process on the GPU"]


def test_a_record_of_an_older_protocol_is_marked(lab, monkeypatch):
    assert not dataset(lab).entries[0].devices[0].older_protocol
    monkeypatch.setattr(evidence, "PROTOCOL", 2)
    assert dataset(lab).entries[0].devices[0].older_protocol
    assert "12× (older protocol)." in files(lab)["llms.txt"]


def test_a_claim_on_which_records_contradict_each_other_is_disputed(lab):
    assert not dataset(lab).entries[0].claims[0].disputed
    publish_b200(lab)
    assert dataset(lab).entries[0].claims[0].disputed
    assert "12× (disputed)." in files(lab)["llms.txt"]


def test_a_site_without_an_address_names_none(lab):
    found = files(lab, site=Site("Warplog", "A journal.", ""))
    assert sorted(found) == ["llms.txt", "robots.txt", "site.json", "site.schema.json"]
    assert found["robots.txt"] == "User-agent: *\nAllow: /\n"
    assert "feed" not in found["llms.txt"]
    data = json.loads(found["site.json"])
    jsonschema.validate(data, json.loads(found["site.schema.json"]))
    (item,) = data["entries"]
    assert data["url"] is data["devices"][0]["url"] is item["url"] is None
    assert item["claims"][0]["url"] is item["devices"][0]["record_url"] is None
    assert item["address"] == "entries/one-sum.html"


def test_a_device_without_a_record_has_none(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.artifact()
    lab.entry()
    (item,) = dataset(lab).entries
    (proof,) = item.devices
    assert (proof.record, proof.recorded, proof.stale) == (None, None, False)
    assert dataset(lab).counts.untested == 1


def test_what_was_reported_stands_beside_what_was_measured(lab):
    said = "    reported: {value: 32.9, device: nvidia-b200, by: a post}\n    cause: A cliff.\n"
    lab.entry(FRONT.replace("values:", said + "values:"))
    (claim,) = dataset(lab).entries[0].claims
    assert (claim.reported.value, claim.reported.device, claim.reported.by) == (
        32.9,
        "nvidia-b200",
        "a post",
    )
    assert claim.cause == "A cliff."


def test_the_counts_are_those_of_the_home_page(lab):
    lab.entry(FRONT.replace("2026-12-02", "2026-12-09"), name="2026-12-09-two.md")
    found = dataset(lab)
    assert (found.counts.entries, found.counts.claims, found.counts.supported) == (2, 2, 2)
    assert [each.name for each in found.devices] == ["NVIDIA H200"]
    assert [each.slug for each in found.entries] == ["two", "one-sum"]


def test_the_same_journal_gives_the_same_files(lab):
    assert files(lab) == files(lab)


def test_one_entry_is_one_line_that_can_be_read_alone(lab):
    lab.entry(FRONT.replace("2026-12-02", "2026-12-09"), name="2026-12-09-two.md")
    lines = files(lab)["site.json"].splitlines()
    assert [json.loads(line.rstrip(","))["slug"] for line in lines[1:-1]] == ["two", "one-sum"]


def test_no_entry_is_no_error(tmp_path):
    lab = Lab(tmp_path / "lab")
    found = files(lab)
    assert json.loads(found["site.json"])["entries"] == []
    assert json.loads(found["feed_json_created.json"])["items"] == []
    assert "## Entries" not in found["llms.txt"]


def test_llms_txt_has_the_parts_of_its_format(lab):
    text = files(lab)["llms.txt"]
    lines = text.splitlines()
    assert lines[0] == "# Warplog"
    assert lines[2] == "> A journal & more."
    assert [line for line in lines if line.startswith("#")][1:] == [
        "## Entries",
        "## Method",
        "## Data",
    ]
    assert (
        "- [One sum is enough](https://log.example/sub/entries/one-sum.html): 2026-12-02. One "
        "sentence for the index. NVIDIA H200: 1 supported; speedup of kernel over peer, batch=31: 12×."
    ) in lines
    assert "To cite a claim" in text


def test_markup_in_a_title_is_literal_in_llms_txt(lab):
    lab.entry(FRONT.replace("One sum is enough", "'A [link](x) and `code`'"))
    assert "- [A \\[link\\](x) and \\`code\\`](https://" in files(lab)["llms.txt"]


def test_older_entries_are_what_a_short_context_may_leave_out(lab):
    for number in range(60):
        day = f"2026-01-{number // 3 + 1:02}"
        lab.entry(FRONT.replace("2026-12-02", day), name=f"{day}-old-{number}.md")
    first, _, optional = files(lab)["llms.txt"].partition("## Optional")
    assert first.count("/entries/") == 50
    assert optional.count("/entries/") == 11


def test_robots_txt_names_the_sitemap_by_its_whole_address(lab):
    assert "Sitemap: https://log.example/sub/sitemap.xml\n" in files(lab)["robots.txt"]
