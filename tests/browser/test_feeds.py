"""What machines read of both sites: feeds, the site's own JSON, records, the map."""

import gzip
import json
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

from .built import SITE_URL
from .findings import nothing
from .hostile import TEXT, field
from .needs import package

feedparser = package("feedparser")
jsonschema = package("jsonschema")

RSS, JSON_FEED = "application/rss+xml", "application/feed+json"


def feed_of(site, kind):
    """The path of the feed of a kind that the home page announces."""
    kinds = {kind, kind.replace("feed+", "")}
    links = [each for each in site.parsed("index.html").links if each.get("rel") == "alternate"]
    found = [each["href"] for each in links if each.get("type") in kinds]
    assert found, f"the home page announces no {kind}"
    return found[0].removeprefix(SITE_URL)


@pytest.fixture
def rss(site):
    """The site's RSS feed, parsed."""
    return feedparser.parse((site.root / feed_of(site, RSS)).read_bytes())


@pytest.fixture
def json_feed(site):
    """The site's JSON feed, parsed."""
    return json.loads(site.text(feed_of(site, JSON_FEED)))


def titles(site):
    """The number of entries that a feed can hold."""
    return min(len(site.entries), 20)


def test_the_rss_feed_is_well_formed(rss):
    assert not rss.bozo, rss.get("bozo_exception")
    assert rss.version == "rss20"
    assert rss.feed.title
    assert rss.feed.link


def test_the_rss_feed_holds_every_entry(rss, site):
    assert len(rss.entries) == titles(site)
    paths = {urlsplit(each.link).path.removeprefix("/") for each in rss.entries}
    assert paths <= set(site.entries)
    for each in rss.entries:
        assert each.title
        assert each.summary
        assert each.id
        assert parsedate_to_datetime(each.published)


def test_the_json_feed_has_what_version_1_1_requires(json_feed, site):
    assert json_feed["version"] == "https://jsonfeed.org/version/1.1"
    assert json_feed["title"]
    assert len(json_feed["items"]) == titles(site)
    assert len({each["id"] for each in json_feed["items"]}) == titles(site)
    for each in json_feed["items"]:
        assert isinstance(each["id"], str)
        assert each.get("content_html") or each.get("content_text")
        assert urlsplit(each["url"]).path.removeprefix("/") in site.entries


def test_addresses_in_feeds_lead_somewhere(site):
    for kind in (RSS, JSON_FEED):
        nothing(site.broken_absolute(feed_of(site, kind)))


def test_a_hostile_title_is_text_in_the_feeds(lab):
    title = field("title", TEXT)
    parsed = feedparser.parse((lab.root / feed_of(lab, RSS)).read_bytes(), sanitize_html=False)
    assert title in [each.title for each in parsed.entries]  # once escaped, as text is in XML


def test_the_json_of_the_site_fits_its_schema(site):
    data = json.loads(site.text("site.json"))
    schema = json.loads(site.text("site.schema.json"))
    checker = jsonschema.validators.validator_for(schema)
    checker.check_schema(schema)
    errors = [
        f"{each.json_path}: {each.message[:200]}" for each in checker(schema).iter_errors(data)
    ]
    nothing(errors)
    assert not checker(schema).is_valid({"anything": 1})


def test_addresses_in_the_json_of_the_site_lead_somewhere(site):
    nothing(site.broken_absolute("site.json"))


def test_every_record_fits_the_published_schema(site):
    schema = json.loads(site.text("record.schema.json"))
    checker = jsonschema.validators.validator_for(schema)(schema)
    records = sorted(site.root.glob("artifacts/*/records/*/*.json"))
    assert records
    for path in records:
        errors = [each.json_path for each in checker.iter_errors(json.loads(path.read_bytes()))]
        assert not errors, path.name


def test_the_map_of_the_site_is_well_formed_and_leads_to_pages(site):
    root = ET.fromstring(site.text("sitemap.xml"))
    found = [each.text for each in root.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    assert len(found) == len(set(found)) >= len(site.entries)
    nothing(site.broken_absolute("sitemap.xml"))
    packed = gzip.decompress((site.root / "sitemap.xml.gz").read_bytes())
    assert ET.fromstring(packed).tag == root.tag


def test_the_list_for_language_models_leads_somewhere(site):
    text = site.text("llms.txt")
    assert text.startswith("# ")
    nothing(site.broken_absolute("llms.txt"))
