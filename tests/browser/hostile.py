"""Entries whose every field is hostile, or a word of ten thousand characters.

The rule kept here: a hostile text sets `window.pwned` if any of it runs, and starts with the name of its
field between guillemets, so that a test can ask whether the page shows it, and shows it as text.
"""

import msgspec
from factory import measured, record_of

from warplog.workload import spell

from .manuscript import B200, H200, SPREAD, environment_of, front_matter, spelled, write

# Where <, > and control characters are refused at load: quotes, entities, braces, both directions.
TEXT = (
    '" onmouseover="window.pwned=1" \' &lt;img src=x onerror=window.pwned=1&gt; &amp; {{7*7}} '
    "${{ github.token }} {% raw %} javascript:window.pwned=1 `window.pwned=1` 🚀 עברית العربية"
)
# Anywhere else.
MARKUP = (
    "</script></style></textarea></title></pre><script>window.pwned=1</script>"
    "\"'><img src=x onerror=window.pwned=1><svg onload=window.pwned=1> " + TEXT
)
# What stands behind it is not for display: escapes of a terminal, controls, marks of direction.
CONTROLS = "\x1b[31mred\x1b[0m \x07\x00 \u202egnp.exe \u200f\u2066 \x9b1m"
ADDRESS = 'https://example.org/"><script>window.pwned=1</script>?a=1&b=<i>'
FILE = "<img src=x onerror=window.pwned=1> ' & %2e.txt"
# Ten thousand characters, none in pairs that a font kerns: those take a browser seconds to break.
LONG = "0123456789abcdef" * 625

CODE = f'''\
"""</script><script>window.pwned=1</script> ${{{{ github.token }}}} {{{{0}}}} {{% raw %}}"""
# <img src=x onerror=window.pwned=1> \x1b[31mred\x1b[0m \u202egnp.exe &lt;b&gt; &amp;
MARK = "<!-- --> ]]> <![CDATA["
LINE = "{"x" * 2000}"
'''
BODY = f"""
It took [?](#time), which is [?](#says-it) as fast, and [?](#counts).

Prose with {{{{7*7}}}} and ${{{{ github.token }}}} and {{% raw %}} 🚀 עברית العربية,
`</script><script>window.pwned=1</script>`.

## A heading of `<b>` & {"x" * 300}

```text
</pre></script><script>window.pwned=1</script> {"y" * 2000}
```

| a | b |
| --- | --- |
| {"z" * 500} | {"z" * 500} |

```source
file: kernel.py
```
"""


def field(name, text=MARKUP):
    """A hostile text for the field `name`, without what is not for display."""
    return f"«{name}» {text}"


def bad(name):
    """A hostile text for the field `name`, with all that it can hold."""
    return field(name) + CONTROLS


WORKLOAD = {"batch": 31, "mode": bad("workload")}
REPORTED = {
    "value": bad("value"),
    "device": bad("reported-on"),
    "by": bad("by"),
    "url": ADDRESS,
}


def hostile_entry(lab):
    """An entry, its artifact and its record, of hostile texts."""
    artifact = lab.artifact("hostile", kernel=CODE)
    (artifact.folder / FILE).write_text("a file\n", encoding="utf-8")
    plain = record_of(artifact, [])
    lab.publish(
        artifact,
        _measurements(),
        environment=_environment(artifact),
        source=msgspec.structs.replace(plain.source, commit=bad("commit")),
        protocol=msgspec.structs.replace(plain.protocol, timer=bad("timer")),
        disturbed=[bad("disturbed")],
    )
    size = {"subject": bad("subject"), "workload": spell(WORKLOAD)}
    speed = {"metric": "speedup", "over": bad("over"), **size}
    wrong = {"metric": "latency", "subject": bad("wrong")}
    claims = {
        "says-it": {"says": bad("says"), **speed, "at_least": 10, "reported": REPORTED},
        "counts": {"says": bad("says-too"), "metric": bad("metric"), **size, "equals": 2},
        "wrong": {"says": bad("says-three"), **wrong, "at_most": 1},
    }
    front = front_matter(
        "hostile",
        field("title", TEXT),
        claims,
        values={"time": {"metric": "latency", **size}},
        tags=["memory", field("tag", TEXT)],
        summary=field("summary", TEXT),
    )
    figure = _figure([bad("subject"), bad("over")], bad("figure-title"), bad("caption"))
    write(lab, "hostile", front, BODY + figure, "2026-12-04")


def _environment(artifact):
    gpu = {"name": bad("gpu"), "compute_capability": bad("capability"), "multiprocessors": 132}
    environment = environment_of(
        artifact,
        H200,
        driver=bad("driver"),
        python=bad("python"),
        system=bad("system"),
        packages={bad("package"): bad("version")},
        variables={bad("variable"): bad("setting")},
        clocks=[{"sm_mhz": 1980, "slowed": [bad("slowed")]}],
    )
    return msgspec.structs.replace(environment, gpu=gpu)


def _measurements():
    runs = [one * 1e-5 for one in SPREAD]
    peer = [12 * one for one in runs]
    rows = [
        measured(bad("metric"), bad("subject"), [1] * 6, unit=bad("unit"), **WORKLOAD),
        measured("latency", bad("wrong"), None, failed=bad("failed"), **WORKLOAD),
    ]
    for batch in (31, 62):
        size = {**WORKLOAD, "batch": batch}
        rows += [
            measured("latency", bad("subject"), runs, traffic=4_000_000, work=1_000_000, **size),
            measured("latency", bad("over"), peer, traffic=4_000_000, work=1_000_000, **size),
            measured("latency_again", bad("over"), [1.01 * one for one in peer], **size),
        ]
    return rows


def _figure(subjects, title, caption):
    block = {
        "kind": "lines",
        "metric": "latency",
        "axis": "batch",
        "subjects": subjects,
        "title": title,
        "caption": caption,
    }
    return f"\n```figure\n{spelled(block)}```\n"


def long_entry(lab):
    """The same of a word of ten thousand characters, on another GPU."""
    artifact = lab.artifact("long")
    gpu = {"name": LONG, "compute_capability": LONG, "multiprocessors": 132}
    named = {LONG: LONG}
    environment = environment_of(artifact, B200, driver=LONG, packages=named, variables=named)
    runs = [one * 1e-5 for one in SPREAD]
    rows = [measured("latency", "wrong", None, failed=LONG, batch=1, mode=LONG)]
    for batch in (1, 2):
        slow = [9 * one for one in runs]
        rows.append(measured("latency", LONG, runs, batch=batch, mode=LONG))
        rows.append(measured("latency", "peer", slow, batch=batch, mode=LONG))
    lab.publish(
        artifact,
        rows,
        device=B200,
        environment=msgspec.structs.replace(environment, gpu=gpu),
        disturbed=[LONG],
    )
    speed = {"metric": "speedup", "subject": LONG, "over": "peer", "workload": "batch=1"}
    reported = {"value": LONG, "device": LONG, "by": LONG, "url": "https://example.org/" + LONG}
    claims = {"long": {"says": LONG, **speed, "at_least": 10, "reported": reported}}
    front = front_matter("long", LONG, claims, tags=[LONG, "memory"], summary=LONG, device=B200)
    body = f"\nIt is [?](#long).\n\n{LONG}\n\n## {LONG}\n\n- {LONG}\n\n`{LONG}`\n\n> {LONG}\n\n"
    write(lab, "long", front, body + _figure([LONG, "peer"], LONG, LONG), "2026-12-05")
