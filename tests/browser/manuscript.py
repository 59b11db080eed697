"""Parts of a repository to look at: front matter, environments of three GPUs, six runs of two subjects."""

import json
import re

import msgspec
from factory import measured, record_of

H200, B200, MI300X = "nvidia-h200", "nvidia-b200", "amd-mi300x"
GPUS = {
    H200: {"name": "NVIDIA H200", "compute_capability": "9.0", "multiprocessors": 132},
    B200: {"name": "NVIDIA B200", "compute_capability": "10.0", "multiprocessors": 148},
    MI300X: {"name": "AMD Instinct MI300X", "compute_capability": "9.4", "multiprocessors": 304},
}
SPREAD = [1.0, 1.01, 0.99, 1.0, 1.005, 0.995]
_DAY = "2026-12-02"


def environment_of(artifact, device, **changes):
    """The environment of a record on one of the three GPUs."""
    plain = record_of(artifact, []).environment
    return msgspec.structs.replace(plain, gpu=GPUS[device], **changes)


def spelled(data):
    """Keys with their values as JSON, which YAML reads too; controls are spelled as escapes."""
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in data.items())
    return re.sub(
        "[\x7f-\x9f\u202a-\u202e\u2066-\u2069]",
        lambda found: f"\\u{ord(found[0]):04x}",
        "".join(lines),
    )


def front_matter(slug, title, claims, values=None, device=H200, **fields):
    """Front matter: what is given, and plain values for the rest."""
    data = {
        "title": title,
        "date": _DAY,
        "artifact": slug,
        "device": device,
        "tags": ["memory"],
        "summary": "A summary.",
        **fields,
        "claims": claims,
        "values": values or {},
    }
    return spelled(data)


def write(lab, slug, front, body, day=_DAY):
    """Write an entry of a day."""
    lab.entry(front.replace(_DAY, day, 1), body, f"{day}-{slug}.md")


def rates(ring, loop):
    """Six runs of a ring and of a plain loop at four sizes, in microseconds of the smallest."""
    rows = []
    for batch in (1, 2, 4, 8):
        runs = [batch * one * 1e-6 for one in ring]
        peer = [batch * one * 1e-6 for one in loop]
        amounts = {"traffic": 4_000_000 * batch, "work": 1_000_000 * batch}
        rows += [
            measured("latency", "ring", runs, **amounts, batch=batch),
            measured("latency", "plain loop", peer, **amounts, batch=batch),
            measured("latency_again", "plain loop", [x * 1.01 for x in peer], batch=batch),
            measured("mismatches", "ring", [0] * 6, unit="rows", batch=batch),
        ]
    return rows
