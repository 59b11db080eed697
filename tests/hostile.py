"""What is thrown at the harness on a hard day: edits of bytes and of values, odd names, a torch that counts.

The rule kept here: an edit starts from what is right, so that most of it is read before the harm is found.
"""

import hashlib
import json

from hypothesis import strategies as st

# A torch on a host with one GPU: enough to run a script that only counts, and imported at once.
TORCH = """
import types


class _Any:
    def __init__(self, *_words, **_named):
        pass

    def __call__(self, *_words, **_named):
        return self


class Event(_Any):
    record = elapsed_time = synchronize = None


class device:
    def __init__(self, kind, index=0):
        self.type, self.index = kind, index


cuda = types.SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: 1,
    Event=Event,
    synchronize=lambda: None,
    get_device_name=lambda _: "Test GPU",
    get_device_properties=lambda _: types.SimpleNamespace(
        name="Test GPU", major=9, minor=0, multi_processor_count=1, total_memory=1 << 30,
        L2_cache_size=4096, uuid="none",
    ),
)
version = types.SimpleNamespace(cuda=None)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (_Any,), {"new_empty": None})
"""

# What YAML, Markdown, JSON, HTML and terminals make something of.
TOKENS = [
    b"", b"\n", b"\r", b"\r\n", b"\t", b" ", b"\0", b"\x1b[2J", b"\xff", b"\xc3", b"\xed\xa0\x80",
    "\u202e".encode(), "\u2028".encode(), "\ufeff".encode(), "\U0001f600".encode(), b"\\ud800",
    b"---\n", b"\n---\n", b"...\n", b"&a ", b"*a", b"<<: *a\n", b"!!binary ", b"!!python/name:os.system ",
    b"!x ", b"? ", b"- ", b": ", b"#", b"|\n", b">\n", b"%YAML 9.9\n", b"{", b"}", b"[", b"]", b",", b"'",
    b'"', b"\\", b"1e999", b"-1e999", b".nan", b".inf", b"NaN", b"Infinity", b"0x1f", b"010", b"1:30",
    b"9" * 400, b"9" * 5000, b"-0", b"1e-400", b"null", b"~", b"true", b"yes", b"2026-02-30",
    b"9999-99-99", b"batch=31 batch=31", b"batch=", b"=", b"speedup", b"latency", b"mean: geometric\n",
    b"over: kernel\n", b"at_least: 1\n", b"between: [2, 1]\n", b"workload: [1]\n", b"draft: maybe\n",
    b"headline: none\n", b"claims: []\n", b"[?](#fast)", b"[?](#no", b"](#", b"[x]: javascript:1\n",
    b"# ", b"## fast {#fast}\n", b"```\n", b"~~~~\n", b"```figure\n", b"```source\nfile: ../../../x\n```\n",
    b"```figure\nkind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: t\n```\n",
    b"`", b"<!--", b"-->", b"<script>", b"</", b"<![CDATA[", b"<?x", b"&#x6a;avascript:", b"{: onclick=x}",
    b"| a | b |\n| - | - |\n", b"<<<<<<< ours\n", b"$$", b"{{", b"}}", b"{%", b"x" * 3000, b"{" * 300,
    b"[" * 3000, b">" * 3000, b"`" * 3001, b"*" * 3001, b"(a+" * 900, b"- " * 900, b"<a " * 900, b"&" * 3000,
]  # fmt: skip
WORDS = [
    "", " ", "x", "kernel", "peer", "latency", "speedup", "s", "rows", "none", "batch=31", "nvidia-h200",
    "row-sum", "fast", "..", "../../etc", "/", "\\", "C:\\", "a\nb", "\r", "\x00", "\x1b[31m", "\u202e",
    "\ufeff", "'", '"', "<b>", "&amp;", "`", "{{7*7}}", "%s", "{0}", "1e5", "nan", "NaN", "true", "é",
    "\U0001f600", "x" * 3000, "2026-12-02", "2026-12-02T10:15:00Z", "2026-02-30T99:99:99Z", "sha256:0",
]  # fmt: skip
NUMBERS = [
    0,
    1,
    -1,
    2,
    6,
    31,
    10**18,
    10**400,
    -(10**400),
    0.0,
    -0.0,
    0.5,
    1e-5,
    1e300,
    -1e300,
    5e-324,
]
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
# Names that a file may have on one system or another.
NAMES = [
    b"a b.py", b"-rf", b"--", b"a\nb.py", b"a\rb", b"a\tb.py", b"\x1b[2J.py", b"\xff.py", b"\xc3(.txt",
    b"\xed\xa0\x80.md", "\u202egnp.exe".encode(), "é.py".encode(), "e\u0301.py".encode(),
    "\U0001f600.txt".encode(), b"<script>.txt", b"<img src=x onerror=pwned=1>.txt", b"a&amp;b.txt",
    b'a"b.txt', b"a'b.txt", b"a`b.txt", b"a#b.txt", b"a?b.txt", b"a%2e%2e.txt", b"a\\b.txt", b"a:b.txt",
    b"a*b.txt", b"a|b.txt", b"$(id).txt", b"${HOME}.txt", b"{{7*7}}.txt", b"{% raw %}.txt", b"con",
    b"nul.txt", b"a.", b" ", b"index.html", b"x" * 255,
    b"x" * 240 + b".json", b"[x](y).txt", b"~", b"@x", b"a;b",
]  # fmt: skip


def edited(data):
    """Bytes that are `data` after one to four edits: something put in, taken out, or written twice."""
    edit = st.tuples(
        st.integers(0, 10_000),
        st.sampled_from([0, 0, 1, 3, 20, 200]),
        st.sampled_from(TOKENS) | st.binary(max_size=4) | st.integers(1, 200),
    )

    def apply(edits):
        found = data
        for where, length, token in edits:
            place = where * len(found) // 10_000
            new = found[place : place + token] if isinstance(token, int) else token
            found = found[:place] + new + found[place + length :]
        return found

    return st.lists(edit, min_size=1, max_size=4).map(apply)


def values(*, finite=False):
    """Any value that YAML or JSON can hold."""
    numbers = NUMBERS if finite else NUMBERS + NOT_FINITE
    plain = st.none() | st.booleans() | st.sampled_from(numbers) | st.sampled_from(WORDS)
    few = {"max_size": 2}
    return plain | st.lists(plain, **few) | st.dictionaries(st.sampled_from(WORDS), plain, **few)


def changed(data, *, finite=False):
    """`data` with one to three of its values replaced, taken out, moved or given another name."""
    count = sum(1 for _ in _places(data))
    change = st.tuples(
        st.integers(0, count), st.sampled_from(["set", "drop", "add", "copy"]),
        values(finite=finite), st.sampled_from(WORDS), st.integers(0, count),
    )  # fmt: skip

    def apply(changes):
        found = json.loads(json.dumps(data))
        for where, how, value, word, other in changes:
            places = list(_places(found))
            if places:
                new = _at(*places[other % len(places)]) if how == "copy" else value
                _change(*places[where % len(places)], how, json.loads(json.dumps(new)), word)
        return found

    return st.lists(change, min_size=1, max_size=3).map(apply)


def _places(data):
    """Yield each container with each of its keys."""
    pending = [data]
    while pending:
        holder = pending.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], dict | list):
                pending.append(holder[key])


def _at(holder, key):
    return holder[key]


def _change(holder, key, how, value, word):
    if how == "drop":
        del holder[key]
    elif how == "add" and isinstance(holder, dict):
        holder[word] = value
    elif how == "add":
        holder.insert(key, value)
    else:
        holder[key] = value


def sealed(fields):
    """A record's JSON with the seal that fits it, as whoever can write a file can make it."""
    plain = {**fields, "seal": ""}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    seal = "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps({**plain, "seal": seal}).encode()
