"""The whole path, from a kernel to a page: reproduced, published, judged, filled, rendered."""

import re
import shutil
from pathlib import Path

import msgspec
import pytest
import yaml
from factory import Lab
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.plugins import PluginCollection
from mkdocs.utils.yaml import yaml_load

from warplog import runner
from warplog.check import check
from warplog.entry import fill, load
from warplog.plugin import WarplogPlugin
from warplog.store import publish

ROOT = Path(__file__).parents[1]
KERNEL = '''"""y = 2 x. One program owns one block."""

import torch
import triton
import triton.language as tl


# region: kernel
@triton.jit
def _double(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < size) * 2, mask=at < size)
# endregion


def double(x):
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
'''
SCRIPT = """
import torch
from kernel import double

def reproduce(run):
    for size in run.sizes(full=[1 << 20], tiny=[300, 1]):
        def inputs(seed):
            generator = torch.Generator().manual_seed(seed)
            return torch.randn(size, generator=generator)
        run.compare({"double": double}, lambda x: x.double() * 2, inputs, exact=False, size=size)
        run.count("blocks", -(-size // 128), unit="blocks", subject="double", size=size)
"""
FRONT = """\
title: Twice is enough
date: 2026-12-02
artifact: double
device: test-gpu
tags: [triton]
summary: A kernel that doubles, from end to end.
claims:
  right:
    says: The kernel is right to the last bit.
    metric: error
    subject: double
    equals: 0
  one-block:
    says: Three hundred numbers fit into one block.
    metric: blocks
    subject: double
    workload: size=300
    equals: 1
    reported: {value: 1, device: other-gpu, by: "a report"}
    cause: A block holds no more than 128 of them.
"""
BODY = """
It takes [?](#one-block).

```source
file: kernel.py
region: kernel
```
"""


@pytest.fixture
def lab(tmp_path):
    """An artifact that was reproduced for real, its record filed under a GPU's name, its entry."""
    made = Lab(tmp_path / "lab")
    artifact = made.artifact("double", kernel=KERNEL, reproduce=SCRIPT)
    record = runner.reproduce(artifact, runner.Options(runs=2), lambda _: None).record
    publish(msgspec.structs.replace(record, device="test-gpu"), artifact.records)
    path = made.entry(FRONT, BODY, "2026-12-02-double.md")
    path.write_text(fill(load(path, made.repository), made.repository), encoding="utf-8")
    return made


def page_of(lab):
    """Build the site around `lab` and return the text of its one entry's page."""
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings |= {"theme": {"name": "mkdocs"}, "plugins": [], "nav": [{"Home": "index.md"}]}
    for part in ("style", "assets/fonts"):
        shutil.copytree(ROOT / "site_src" / part, lab.root / "site_src" / part, dirs_exist_ok=True)
    (lab.root / "site_src" / "index.md").write_text("# Home\n", encoding="utf-8")
    (lab.root / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    config = load_config(str(lab.root / "mkdocs.yml"))
    config.plugins = PluginCollection()
    config.plugins["warplog"] = WarplogPlugin()
    build(config)
    return (Path(config.site_dir) / "entries/double.html").read_text(encoding="utf-8")


def test_what_was_measured_is_judged_and_shown(lab):
    assert check(lab.repository) == []
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page_of(lab)))
    for words in ("It takes 3 blocks", "supported", "refuted", "tl.store", "reproduce -- double"):
        assert words in text


def test_a_change_of_the_kernel_makes_the_page_say_stale(lab):
    kernel = lab.root / "artifacts/double/kernel.py"
    kernel.write_text(kernel.read_text("utf-8") + "\n# changed\n", encoding="utf-8")
    assert any("stale" in str(fault) for fault in check(lab.repository))
    assert "<strong>Stale.</strong> kernel.py" in page_of(lab)


def test_other_line_endings_change_nothing(lab):
    kernel = lab.root / "artifacts/double/kernel.py"
    kernel.write_bytes(kernel.read_bytes().replace(b"\n", b"\r\n"))
    assert check(lab.repository) == []
