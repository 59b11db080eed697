"""Makes a journal of any size, and the same words as a bare mkdocs-material site, to compare builds.

The rule kept here: both sites say the same words in the same Markdown with the same theme, search and
extensions; the bare one has the code as fenced blocks, and neither claims nor charts. The same seed makes
the same files.
"""

import dataclasses
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import yaml
from factory import H200, measured, record_of
from mkdocs.utils.yaml import yaml_load
from prose import Author

from warplog.record import Record, dumps
from warplog.source import Artifact
from warplog.store import file_name

ROOT = Path(__file__).parents[1]
WORDS, CODE_LINES, SAMPLES, RUNS = 2300, 150, 9, 6
LENGTHS, BATCHES = [2**n for n in range(7, 15)], [1, 2, 4, 8, 16, 31]
DEVICES = {
    "nvidia-h200": H200,
    "nvidia-b200": {"name": "NVIDIA B200", "compute_capability": "10.0", "multiprocessors": 148},
    "nvidia-rtx-5090": {"name": "NVIDIA GeForce RTX 5090", "compute_capability": "12.0"},
}
TAGS = [
    "triton",
    "cuda",
    "pytorch",
    "attention",
    "softmax",
    "sorting",
    "reduction",
    "quantisation",
    "fp8",
    "bf16",
    "gemm",
    "layernorm",
    "scan",
    "moe",
    "sparse",
    "determinism",
    "numerics",
    "memory",
    "scheduling",
    "compiler",
]
HEADINGS = [
    "What we asked",
    "What we expected",
    "What we did",
    "What the machine said",
    "Where the time goes",
    "What did not work",
    "What it means",
]
FIRST, DAYS = date(2021, 1, 4), 5 * 365


@dataclasses.dataclass(frozen=True)
class Story:
    """One entry as data: its Markdown with `{number}` links and blocks, and the same words bare."""

    slug: str
    day: date
    entry: str
    bare: str
    kernel: str


def journal(root: Path, count: int, words: int = WORDS) -> Path:
    """Write a repository with `count` entries and their artifacts into the new folder `root`."""
    _copy_site(root)
    for number in range(count):
        story = write_story(number, count, words)
        (root / "entries").mkdir(exist_ok=True)
        path = root / "entries" / f"{story.day}-{story.slug}.md"
        path.write_text(story.entry, encoding="utf-8")
        _write_artifact(root / "artifacts" / story.slug, story, number)
    return root


def bare(root: Path, count: int, words: int = WORDS) -> Path:
    """Write the same words as a site of mkdocs-material alone into the new folder `root`."""
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["docs_dir"], settings["nav"] = "docs", [{"Entries": "index.md"}]
    settings["not_in_nav"] = "/entries/"  # a navigation of 1,000 entries would be its slowest part
    settings["theme"].pop("custom_dir", None)
    settings["plugins"] = [each for each in settings["plugins"] if "search" in each]
    for ours in ("extra_css", "extra_javascript", "hooks", "exclude_docs"):
        settings.pop(ours, None)
    (root / "docs" / "entries").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# Entries\n", encoding="utf-8")
    for number in range(count):
        story = write_story(number, count, words)
        path = root / "docs" / "entries" / f"{story.slug}.md"
        path.write_text(story.bare, encoding="utf-8")
    text = yaml.dump(settings, sort_keys=False)
    (root / "mkdocs.yml").write_text(text, encoding="utf-8")
    return root


def _copy_site(root: Path) -> None:
    """Copy what the entries are shown with: the settings, the pages, the ceilings."""
    root.mkdir(parents=True)
    shutil.copy(ROOT / "mkdocs.yml", root)
    for folder in ("site_src", "artifacts/ceilings"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))


def write_story(number: int, count: int, words: int) -> Story:
    """Return entry `number` of `count`; the dates spread over five years."""
    author = Author(number)
    slug = f"{author.random.choice(TAGS)}-{number:04}"
    day = FIRST + timedelta(days=number * DAYS // count)
    kernel = f'"""{author.plain(12)}."""\n\nimport triton\nimport triton.language as tl\n\n\n'
    regions = [author.code(CODE_LINES // 2, name) for name in ("first", "second")]
    kernel += "\n\n".join(regions)
    front, title = _front(author, slug, day)
    sections = _sections(author, words)
    entry = f"---\n{front}---\n\n{_filled(sections, _ENTRY_PARTS)}"
    codes = {
        name: f"```python\n{region.partition(chr(10))[2].rpartition('# endregion')[0]}```"
        for name, region in zip(("source1", "source2"), regions, strict=True)
    }
    plain = f"# {title}\n\n{_filled(sections, _BARE_PARTS | codes)}"
    return Story(slug, day, entry, plain, kernel)


def _front(author: Author, slug: str, day: date) -> tuple[str, str]:
    """Return the front matter and the title of an entry: six claims, six values."""
    title = author.plain(7).replace(":", "")
    bounds = [(1.5, None), (12, None), (None, 4e-5), (None, 1e-6), (8, None), (0, 0)]
    metrics = ["speedup", "speedup", "latency", "latency", "speedup", "mismatches"]
    sizes = ["length=4096", "length=128", "length=1024", "length=16384", "batch=31", "batch=31"]
    claims = {}
    for index, (metric, size, bound) in enumerate(zip(metrics, sizes, bounds, strict=True)):
        claim = {"says": author.plain(14) + ".", "metric": metric, "subject": "kernel"}
        claim |= {"over": "baseline"} if metric == "speedup" else {}
        claim["workload"] = size
        claim |= {"equals": 0} if metric == "mismatches" else {}
        if metric != "mismatches":
            claim["at_least" if bound[0] else "at_most"] = bound[0] or bound[1]
        if index % 2:
            claim["reported"] = {"value": 3, "device": "nvidia-b200", "by": "the original post"}
            claim["cause"] = author.plain(9) + "."
        claims[f"claim-{index + 1}"] = claim
    values = {
        f"value-{index + 1}": {"metric": "latency", "subject": "kernel", "workload": f"length={n}"}
        for index, n in enumerate(LENGTHS[:6])
    }
    front = {
        "title": title,
        "date": day.isoformat(),
        "artifact": slug,
        "device": "nvidia-h200",
        "tags": author.random.sample(TAGS, 3),
        "summary": author.plain(16) + ".",
        "claims": claims,
        "values": values,
    }
    return yaml.safe_dump(front, sort_keys=False, width=1000), title


def _sections(author: Author, words: int) -> str:
    """Return the narrative with a `{part}` where a number or a block stands."""
    numbers = [f"claim{n}" for n in range(1, 7)] + [f"value{n}" for n in range(1, 7)]
    blocks = {1: "source1", 3: "figure1", 4: "figure2", 5: "source2"}
    text = []
    for index, heading in enumerate(HEADINGS):
        text.append(f"## {heading}")
        for _ in range(3):
            text.append(author.paragraph(words // len(HEADINGS) // 4 - 12))
            if numbers:
                text[-1] += f"\nIt comes to {{{numbers.pop(0)}}}, {author.sentence(8).lower()}"
        items = (author.sentence(9) for _ in range(max(1, words // len(HEADINGS) // 4 // 9)))
        text.append("\n".join(f"- {item}" for item in items))
        if index in blocks:
            text.append(f"{{{blocks[index]}}}")
    return "\n\n".join(text) + "\n"


_FIGURES = {
    "figure1": (
        "kind: lines\nmetric: latency\naxis: length\nsubjects: [kernel, peer, baseline]\n"
        "workload: batch=8\ntitle: The kernel stays flat and the others do not\n"
        "caption: Eight rows of each length."
    ),
    "figure2": (
        "kind: ratios\nmetric: speedup\naxis: batch\nsubjects: [kernel, peer]\nover: baseline\n"
        "workload: length=4096\ntitle: The gain grows with the batch\ncaption: Rows of 4096."
    ),
}
_LINKS = {f"{kind}{n}": f"[?](#{kind}-{n})" for kind in ("claim", "value") for n in range(1, 7)}
_ENTRY_PARTS = (
    _LINKS
    | {name: f"```figure\n{text}\n```" for name, text in _FIGURES.items()}
    | {
        f"source{n}": f"```source\nfile: kernel.py\nregion: {name}\n```"
        for n, name in ((1, "first"), (2, "second"))
    }
)
_BARE_PARTS = dict.fromkeys(_LINKS, "so much") | dict.fromkeys(_FIGURES, "")


def _filled(text: str, parts: dict[str, str]) -> str:
    """Return `text` with each `{part}` replaced; code may hold braces, so no format string is used."""
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def _write_artifact(folder: Path, story: Story, number: int) -> None:
    """Write the kernel, its scripts and a fresh record for each device."""
    folder.mkdir(parents=True)
    texts = {
        "kernel.py": story.kernel,
        "reference.py": f'"""The reference of {story.slug}."""\n\n\ndef total(values):\n    return values\n',
        "reproduce.py": f'"""Reproduce {story.slug}."""\n\n\ndef reproduce(run):\n    pass\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    artifact = Artifact(story.slug, folder)
    for index, device in enumerate(DEVICES):
        noon = datetime(story.day.year, story.day.month, story.day.day, 12, tzinfo=UTC)
        record = _record(artifact, device, noon.strftime("%Y-%m-%dT%H:%M:%SZ"), number * 3 + index)
        path = folder / "records" / device / file_name(record.recorded)
        path.parent.mkdir(parents=True)
        path.write_text(dumps(record), encoding="utf-8", newline="\n")


def _record(artifact: Artifact, device: str, recorded: str, seed: int) -> Record:
    """Return a fresh record: three subjects on every length and batch, and what is wrong by rows."""
    author = Author(seed + 1_000_000)
    sizes = [(8, length) for length in LENGTHS] + [(batch, 4096) for batch in BATCHES if batch != 8]
    found = []
    for batch, length in sizes:
        where = {"batch": batch, "length": length}
        slow = 2e-6 + 1e-11 * batch * length * author.random.uniform(8, 12)
        times = {
            "kernel": slow / author.random.uniform(1.5, 20),
            "peer": slow / 1.4,
            "baseline": slow,
        }
        for subject, seconds in times.items():
            found.append(measured("latency", subject, [seconds], traffic=1000 * length, **where))
        found.append(measured("latency_again", "baseline", [slow * 1.004], **where))
        found.append(measured("mismatches", "kernel", [0] * RUNS, unit="rows", **where))
    found = [_sampled(each, author) if each.unit == "s" else each for each in found]
    base = record_of(artifact, found, device=device, recorded=recorded)
    environment = type(base.environment)(
        **{**_fields(base.environment), "gpu": DEVICES[device]},
    )
    return Record(**{**_fields(base), "environment": environment})


def _sampled(measurement, author: Author):
    """Return a measurement with SAMPLES samples in each of RUNS runs around its one value."""
    middle = measurement.runs[0][0]
    runs = [
        [float(f"{middle * author.random.gauss(1, 0.01):.6g}") for _ in range(SAMPLES)]
        for _ in range(RUNS)
    ]
    return type(measurement)(**{**_fields(measurement), "runs": runs})


def _fields(struct) -> dict:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
