"""From a coding session to a draft: what is told, what is removed, and that nothing else is touched."""

import json
import os
import random
import re
import subprocess
import sys
import tracemalloc
from datetime import datetime
from pathlib import Path

import factory
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from warplog import cli, drafting, redaction, secret, transcript
from warplog.check import check
from warplog.conversation import Call, Note, Result, assembled
from warplog.fault import Fault
from warplog.gleaning import glean
from warplog.printed import numbers
from warplog.redaction import Redactor
from warplog.transcript import Transcript

ROOT = Path(__file__).parents[1]
WHEN = "2026-11-29T10:15:00.000Z"
WINDOW = 10


@pytest.fixture
def lab(tmp_path, monkeypatch):
    made = factory.lab_with_entry(tmp_path / "lab")
    made.repository.root.joinpath("entries/2026-12-02-one-sum.md").unlink()
    made.entry(body="\nWhat we asked.\n")
    monkeypatch.chdir(made.root)
    return made


class Claude:
    """Writes a session as Claude Code does."""

    def __init__(self):
        self.records = []

    def message(self, who, content, **more):
        name = f"00000000-{len(self.records):04}"
        inner = {"role": who, "content": content}
        self.records.append(
            {"type": who, "uuid": name, "timestamp": WHEN, "message": inner, **more}
        )

    def ask(self, text):
        self.message("user", text)

    def say(self, text):
        self.message("assistant", [{"type": "text", "text": text}])

    def run(self, command, output, *, failed=False, tool="Bash"):
        name = f"toolu_{len(self.records)}"
        inputs = {"command": command} if tool == "Bash" else {"file_path": command}
        self.message("assistant", [{"type": "tool_use", "id": name, "name": tool, "input": inputs}])
        block = {"type": "tool_result", "tool_use_id": name, "content": output, "is_error": failed}
        self.message("user", [block], toolUseResult={"stdout": output})

    def edit(self, path):
        self.run(path, "ok", tool="Edit")

    def write(self, path):
        path.write_text("".join(json.dumps(each) + "\n" for each in self.records), encoding="utf-8")
        return path


class Codex(Claude):
    """Writes the same session as Codex does: arguments and outputs are JSON in JSON."""

    def item(self, kind, outer="response_item", **payload):
        self.records.append(
            {"timestamp": WHEN, "type": outer, "payload": {"type": kind, **payload}}
        )

    def ask(self, text):
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])
        self.item("user_message", outer="event_msg", message=text)

    def say(self, text):
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def run(self, command, output, *, failed=False):
        name = f"call_{len(self.records)}"
        words = json.dumps({"command": ["bash", "-lc", command]})
        self.item("function_call", name="shell", call_id=name, arguments=words)
        body = {"output": output, "metadata": {"exit_code": int(failed)}}
        self.item("function_call_output", call_id=name, output=json.dumps(body))

    def edit(self, path):
        name = f"call_{len(self.records)}"
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch"
        self.item("custom_tool_call", name="apply_patch", call_id=name, input=patch)
        self.item("custom_tool_call_output", call_id=name, output=json.dumps({"output": "ok"}))


def call(*words):
    return CliRunner().invoke(cli.app, ["draft", *map(str, words)])


def drafted(lab, session, *words):
    """The draft of a session and what the command printed."""
    result = call(session.write(lab.root / "session.jsonl"), "--artifact", "row-sum", *words)
    assert result.exit_code == 0, result.exception
    written = re.search(r"^wrote (entries/\S+)$", result.output, re.MULTILINE)[1]
    return (lab.root / written).read_text(encoding="utf-8"), result.output


def flat(text):
    """A text without what may part a value: spaces, breaks and backslashes, escaped breaks too."""
    return re.sub(r"\\+n|\\+|\s+", "", text)


def survivors(hidden, text):
    """Of what was hidden, what ten characters of are left in `text`; of less, all of it."""
    text = flat(text)
    left = []
    for kind, _, value in hidden:
        bare = flat(re.sub(r"-----[A-Z ]+-----", "", value))
        pieces = [bare[at : at + WINDOW] for at in range(max(1, len(bare) - WINDOW + 1))]
        if any(piece in text for piece in pieces):
            left.append((kind, bare))
    return left


def loaded(session, hidden):
    """A session that shows everything hidden as output, in words, wrapped, escaped and on its own."""
    lines = [line for _, line, _ in hidden]
    for at in range(0, len(lines), 6):
        few = lines[at : at + 6]
        short = [line for line in few if len(line) < 200]
        session.run(f"cat part{at}", "\n".join(short))
        for line in set(few) - set(short):
            session.run("cat long", "\n".join(line[i : i + 60] for i in range(0, len(line), 60)))
        session.run(f"show {at}", json.dumps({"inner": json.dumps(few[:2]), "at": at})[:190])
    for _, line, value in hidden[::3]:
        session.say(f"It printed {line}")
        session.ask(f"So {value} it is")
    session.run(f"echo '{hidden[0][1]}' > {hidden[1][2]}", "done")
    session.edit(f"/home/someone/notes-{hidden[2][2]}.py")
    session.records.append({"type": f"odd-{hidden[3][2]}", "payload": hidden[4][2]})
    return session


@pytest.mark.parametrize("session", [Claude, Codex])
@pytest.mark.parametrize("seed", [1, 2])
def test_of_the_planted_secrets_and_traces_none_survives(lab, session, seed):
    hidden = planted.secrets(seed)
    assert len(hidden) >= 60
    assert len({kind for kind, _, _ in hidden}) >= 12
    hidden += planted.traces(seed)
    text, printed = drafted(lab, loaded(session(), hidden))
    assert survivors(hidden, text) == []
    assert survivors(hidden, printed) == []
    assert "github token" in printed
    assert check(lab.repository) == []


def test_without_the_removal_they_would_all_be_in_the_draft(lab, monkeypatch):
    monkeypatch.setattr(Redactor, "clean", lambda _self, text: text)
    hidden = planted.secrets(3)
    text, _ = drafted(lab, loaded(Claude(), hidden))
    assert len(survivors(hidden, text)) == len(hidden)


FORMS = {
    "as it stands": lambda line: line,
    "in JSON": lambda line: json.dumps({"out": line}),
    "in JSON in JSON": lambda line: json.dumps(json.dumps({"out": line})),
    "in JSON with escaped slashes": lambda line: json.dumps(line).replace("/", "\\/"),
    "as code points": lambda line: "".join(f"\\u{ord(each):04x}" for each in line),
    "wrapped at 40": lambda line: "\n".join(line[at : at + 40] for at in range(0, len(line), 40)),
    "wrapped at 80": lambda line: "\n".join(line[at : at + 80] for at in range(0, len(line), 80)),
    "in colours": lambda line: f"\x1b[31m{line[: len(line) // 2]}\x1b[0m{line[len(line) // 2 :]}",
    "with a zero-width space": lambda line: f"{line[:-5]}\u200b{line[-5:]}",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_however_it_is_spelled(form):
    hidden = planted.secrets(5)
    left = []
    for each in hidden:
        left += survivors([each], Redactor().clean(FORMS[form](each[1])))
    assert left == []


@pytest.mark.parametrize("form", FORMS)
def test_a_value_known_as_a_secret_goes_where_nothing_says_that_it_is_one(form):
    value = "swordfishabc"
    redactor = Redactor()
    redactor.learn(f'db_password = "{value}"')
    assert (
        survivors([("password", "", value)], redactor.clean(FORMS[form](f"so {value} it is"))) == []
    )


def test_a_short_password_goes_where_it_stands_as_a_word():
    redactor = Redactor()
    redactor.learn("PASSWORD=ab12cd")
    assert (
        redactor.clean("use ab12cd, not ab12cdef")
        == "use (removed: password or key by name), not ab12cdef"
    )


def ordinary():
    """500 lines of this repository's code, entries and records, and of logs as tools write them."""
    draw = random.Random(7)
    kinds = [
        [
            *ROOT.glob("warplog/*.py"),
            *ROOT.glob("artifacts/*/*.py"),
            *ROOT.glob("artifacts/*/*.cu"),
        ],
        [*ROOT.glob("entries/*.md"), ROOT / "README.md", ROOT / "pyproject.toml"],
        [*ROOT.glob("artifacts/*/records/*/*.json")],
    ]
    lines = []
    for paths, count in zip(kinds, (250, 60, 60), strict=True):
        texts = [
            path.read_text("utf-8") for path in draw.sample(sorted(paths), min(20, len(paths)))
        ]
        found = [line[:300] for text in texts for line in text.split("\n") if line.strip()]
        lines += draw.sample(found, count)
    return lines + [line for _ in range(13) for line in logs(draw)]


def logs(draw):
    """Ten lines of logs with fresh numbers and hashes."""
    digest = "".join(draw.choice("0123456789abcdef") for _ in range(64))
    number = draw.randint(1, 99)
    return [
        f"commit {digest[:40]}",
        f"sha256:{digest}  kernel.py",
        f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}",
        f"nvidia-cublas-cu12   12.4.{number}.8",
        f"2026-11-30 10:15:{number % 60:02}.123 INFO step {number}: loss 0.{number}, {number * 7} tok/s",
        f"ptxas info    : Used {number} registers, 0 bytes spill stores, {number * 16} bytes cmem[0]",
        f"_ZN2at6native13reduce_kernelILi512ELi{number}ENS0_8ReduceOpIfNS0_7MeanOpsIfffEEjfLi4EEEEEvT1_",
        f'  File "warplog/runner.py", line {number}, in reproduce',
        f"[{number}/120] Building CUDA object CMakeFiles/topk.dir/src/radix_select_{number}.cu.o",
        f"| N/A   {number}C    P0   {number}W / 700W |   {number}MiB / 143771MiB |      0%      Default |",
    ]


def test_at_most_one_in_a_hundred_of_ordinary_lines_is_altered():
    lines = ordinary()
    altered = [line for line in lines if Redactor().clean(line) != line]
    assert len(lines) == 500
    assert len(altered) <= 5, altered


@pytest.mark.parametrize(
    "kept", [*logs(random.Random(1)), "127.0.0.1:8000", "x[::2] + y[::-1]", "std::sort", "a @ b.T"]
)
def test_digests_versions_symbols_and_code_stay(kept):
    assert Redactor().clean(kept) == kept


@pytest.mark.parametrize("trace", planted.traces(1), ids=lambda trace: trace[0])
def test_traces_go_once_a_session_has_shown_whose_they_are(trace):
    redactor = Redactor()
    for _, line, _ in planted.traces(1):
        redactor.learn(line)
    assert survivors([trace], redactor.clean(trace[1])) == []


def test_the_name_that_hostname_answers_is_private_everywhere(lab):
    session = Claude()
    session.ask("Where are we?")
    session.run("hostname && nvidia-smi", "bluebox\nGPU 0")
    session.say("This is bluebox.")
    text, _ = drafted(lab, session)
    assert "bluebox" not in text
    assert "This is (removed: host name)." in text


def test_paths_are_told_from_the_session_s_folder(lab):
    session = Claude()
    session.message("user", "Go", cwd="/home/someone/code/kernels")
    session.run(
        "cd /home/someone/code/kernels && ls", "/home/someone/code/kernels/a.py\n/home/someone/b"
    )
    text, _ = drafted(lab, session)
    assert "$ cd . && ls\na.py\n~/b\n" in text


@pytest.mark.parametrize("session", [Claude, Codex])
def test_a_draft_tells_what_was_tried_and_what_it_printed(lab, session):
    made = session()
    made.ask("Make the sum faster")
    made.say("I will measure first.")
    made.run("python bench.py", "kernel: 12.4 us at 3.35 TB/s\npeer_ms: 0.42")
    made.edit("artifacts/row-sum/kernel.py")
    made.run("pytest -q", "1 failed", failed=True)
    text, printed = drafted(lab, made)
    assert "10:15  asked    Make the sum faster\n10:15  said     I will measure first." in text
    assert "ran      python bench.py\n10:15  edited   artifacts/row-sum/kernel.py" in text
    assert "```console\n$ python bench.py\nkernel: 12.4 us at 3.35 TB/s\npeer_ms: 0.42\n```" in text
    assert "latency 1.24e-05 s" in text
    assert "bandwidth 3.35e+12 B/s" in text
    assert "peer_ms=0.42     latency 0.00042 s" in text
    assert "10:15  ran      pytest -q  -> failed, status 1" in text or "-> failed" in text
    assert "2 commands that ran, 1 files edited, 3 numbers with units" in printed
    assert check(lab.repository) == []


def test_a_session_that_edited_an_artifact_is_bound_to_it(lab):
    session = Claude()
    session.ask("Change it")
    session.edit("artifacts/row-sum/kernel.py")
    result = call(session.write(lab.root / "session.jsonl"))
    assert "wrote entries/2026-11-29-change-it.md" in result.output
    assert 'artifact: "row-sum"' in (lab.root / "entries/2026-11-29-change-it.md").read_text(
        "utf-8"
    )


def test_a_session_about_something_new_gets_an_artifact_of_its_own(lab):
    session = Claude()
    session.ask("Try a softmax")
    result = call(
        session.write(lab.root / "session.jsonl"), "--title", "A softmax", "--slug", "soft"
    )
    assert result.exit_code == 0, result.exception
    assert (lab.root / "artifacts/soft/reproduce.py").is_file()
    assert check(lab.repository) == []


def files(lab):
    """What is in the repository, but for what git ignores."""
    return {path for path in lab.root.rglob("*") if ".cache" not in path.parts}


HOSTILE = """\
<script>alert(1)</script> <img src=x onerror=alert(1)>
<<<<<<< HEAD
>>>>>>> other
```
# A heading of level 1
[12.4×](#no-such-claim) runs in 33 µs
~~~~
\x00\x1b[31m\u202e\ufeff
--8<-- "pyproject.toml"
{: onclick=alert(1) }
---
"""


@pytest.mark.parametrize("session", [Claude, Codex])
def test_nothing_in_a_transcript_becomes_html_a_heading_or_a_number(lab, session):
    made = session()
    made.ask(HOSTILE)
    made.say(HOSTILE)
    made.run(HOSTILE, HOSTILE)
    made.edit("````\n# x.py")
    drafted(lab, made)
    assert check(lab.repository) == []


def test_an_existing_entry_is_never_overwritten(lab):
    session = Claude()
    session.ask("Go")
    text, _ = drafted(lab, session, "--slug", "mine")
    again = call(lab.root / "session.jsonl", "--artifact", "row-sum", "--slug", "mine")
    assert isinstance(again.exception, Fault)
    assert "taken by entries/2026-11-29-mine.md; choose another with --slug" in str(again.exception)
    assert (lab.root / "entries/2026-11-29-mine.md").read_text("utf-8") == text


def test_two_who_draft_the_same_at_once_keep_one_entry(lab):
    path = lab.root / "entries/2026-11-29-mine.md"
    drafting._add(path, "first")
    with pytest.raises(Fault, match="is there already"):
        drafting._add(path, "second")
    assert path.read_text("utf-8") == "first"
    assert [each.name for each in path.parent.glob(".*")] == []


@pytest.mark.parametrize("words", [["--artifact", "row-sum"], ["--slug", "fresh"]])
def test_a_full_disk_leaves_nothing_behind(lab, monkeypatch, words):
    def full(*_):
        raise OSError(28, "No space left on device")

    session = Claude()
    session.ask("Go")
    path = session.write(lab.root.parent / "session.jsonl")
    before = files(lab)
    monkeypatch.setattr(drafting.os, "link", full)
    monkeypatch.setattr(drafting, "write_whole", full)
    assert isinstance(call(path, *words).exception, OSError)
    assert files(lab) == before
    assert not (lab.root / "artifacts/fresh").exists()


def test_unknown_records_and_broken_lines_are_counted(lab):
    session = Claude()
    session.ask("Go")
    session.records += [{"type": "newfangled"}, {"type": "newfangled"}, ["no object"]]
    path = session.write(lab.root / "session.jsonl")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"half": \n\n' + "[" * 100_000 + "\n")
    result = call(path, "--artifact", "row-sum")
    assert "2 records of unknown types (newfangled 2), 3 broken lines" in result.output


def test_a_line_that_is_too_long_is_counted_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(transcript, "_LINE_AT_MOST", 100)
    path = tmp_path / "s.jsonl"
    path.write_text('{"a": 1}\n' + '{"b": "' + "x" * 1000 + '"}\n{"c": 3}\n', encoding="utf-8")
    read = Transcript(path)
    assert list(read.records()) == [{"a": 1}, {"c": 3}]
    assert (read.books.too_long, read.books.broken) == (1, 0)


def test_a_session_that_goes_on_while_it_is_read_is_read_as_far_as_it_was_known(tmp_path):
    """What is told later was not there when it was learnt what must not be told."""
    session = Claude()
    session.ask("Go")
    path = session.write(tmp_path / "s.jsonl")
    read = Transcript(path)
    first = list(read.records())
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(session.records[0]) + "\n")
    assert list(read.records()) == first
    assert list(Transcript(path).records()) == [*first, session.records[0]]


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_what_cannot_be_read_twice_is_no_transcript(tmp_path, kind):
    path = {"pipe": tmp_path / "pipe", "folder": tmp_path, "endless": Path("/dev/zero")}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(Fault, match="is no plain file, and a transcript is read twice; save it"):
        glean(Transcript(path))


def test_a_large_transcript_is_never_held_whole(tmp_path):
    session = Claude()
    for number in range(40):
        session.run(f"python step{number}.py", f"loss {number} of the run is fine\n" * 500)
    small, large = Claude(), session.write(tmp_path / "large.jsonl")
    small.records = session.records[:2]
    glean(Transcript(small.write(tmp_path / "small.jsonl")))  # loads what is loaded once
    del session
    tracemalloc.start()
    assert len(glean(Transcript(large)).conversation.commands) == 40
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < large.stat().st_size / 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["missing.jsonl"],
            "missing.jsonl: cannot be read (No such file or directory); name a transcript",
        ),
        (
            ["empty.jsonl"],
            "empty.jsonl: holds no record of a session that is known here; name a transcript",
        ),
        (
            ["s.jsonl", "--artifact", "none"],
            "artifacts/none: there is no such artifact; use one of: row-sum",
        ),
        (["s.jsonl", "--slug", "No Slug"], "--slug: 'No Slug' is no free name"),
        (["s.jsonl", "--artifact", "row-sum", "--slug", "../../x"], "--slug: '../../x' is no free"),
        (["s.jsonl", "--artifact", "row-sum", "--slug", "No Slug"], "--slug: 'No Slug' is no free"),
        (["s.jsonl", "--artifact", "row-sum", "--slug", "/a/b"], "--slug: '/a/b' is no free"),
        (["s.jsonl", "--slug", "x" * 300], "--slug: 'xxxxxxxx"),
        (["s.jsonl", "--title", "12× faster"], "--title: holds the number '12×'; say it without"),
    ],
)
def test_a_mistake_is_one_line_with_a_remedy(lab, words, problem):
    session = Claude()
    session.ask("Go")
    session.write(lab.root / "s.jsonl")
    (lab.root / "empty.jsonl").write_text("{}\n")
    command = [sys.executable, "-m", "warplog", "draft", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(problem)
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_detector_nothing_is_written(lab, monkeypatch):
    session = Claude()
    session.ask("Go")
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", None)
    secret.scanner.cache_clear()
    result = call(session.write(lab.root / "session.jsonl"))
    assert "pip install 'warplog[draft]'" in str(result.exception)
    assert len(list((lab.root / "entries").iterdir())) == 1


def test_a_refused_command_did_not_run(lab):
    session = Claude()
    session.ask("Go")
    session.run("rm -r x", "The user doesn't want to proceed with this tool use.", failed=True)
    text, printed = drafted(lab, session)
    assert "0 commands that ran" in printed
    assert "10:15  not run  rm -r x" in text


def test_a_result_without_its_call_and_a_second_result_are_nothing():
    events = [
        Result("a", "lost"),
        Call("b", "Bash", command="ls"),
        Result("b", "x"),
        Result("b", "y"),
    ]
    session = assembled([Note("asked", "Go"), *events])
    assert [step.result.output for step in session.commands] == ["x"]


CODEX_OUTPUTS = {
    '{"output": "ok\\n", "metadata": {"exit_code": 3}}': ("ok\n", 3),
    "Exit code: 2\nWall time: 1.5 seconds\nOutput:\nboom": ("boom", 2),
    "Chunk ID: ab12\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nhello": (
        "hello",
        0,
    ),
    "plain": ("plain", None),
}


@pytest.mark.parametrize("output", CODEX_OUTPUTS)
def test_the_forms_of_a_codex_output(output, tmp_path):
    records = [{"type": "function_call_output", "call_id": "a", "output": output}]
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(records[0]), encoding="utf-8")
    (result,) = Transcript(path).events()
    assert (result.output, result.status) == CODEX_OUTPUTS[output]


CODEX_CALLS = {
    "exec_command": ({"arguments": '{"cmd": "ls -l"}'}, "ls -l"),
    "shell_command": ({"arguments": '{"command": "ls -l"}'}, "ls -l"),
    "shell": ({"arguments": '{"command": ["git", "log", "a b"]}'}, "git log 'a b'"),
    "exec": ({"input": 'await tools.exec_command({"cmd": "echo \\"x\\""})'}, 'echo "x"'),
    "write_stdin": ({"arguments": '{"chars": "y"}'}, ""),
}


@pytest.mark.parametrize("name", CODEX_CALLS)
def test_the_forms_of_a_codex_command(name, tmp_path):
    inputs, command = CODEX_CALLS[name]
    kind = "custom_tool_call" if "input" in inputs else "function_call"
    payload = {"type": kind, "name": name, "call_id": "a", **inputs}
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps({"type": "response_item", "payload": payload}), encoding="utf-8")
    (made,) = Transcript(path).events()
    assert made.command == command


LEGACY = [
    {"id": "1", "timestamp": WHEN, "instructions": "Be brief."},
    {"record_type": "state"},
    {"type": "reasoning", "summary": [], "encrypted_content": "x"},
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "<environment_context>"}],
    },
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]},
]


def test_a_rollout_without_envelopes_has_no_unknown_records(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(map(json.dumps, LEGACY)), encoding="utf-8")
    read = Transcript(path)
    assert [event.text for event in read.events()] == ["Go"]
    assert not read.books.unknown


def test_a_patch_on_the_command_line_is_an_edit(tmp_path):
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\nEOF"
    session = Codex()
    session.run(patch, "Success.")
    read = assembled(Transcript(session.write(tmp_path / "s.jsonl")).events())
    assert (read.files, read.commands) == ({"a.py": 1}, [])


def test_what_the_tool_added_by_itself_is_no_word_of_the_user(tmp_path):
    session = Claude()
    session.ask("<command-name>/clear</command-name>")
    session.message("user", "Caveat: the messages below", isMeta=True)
    session.message("user", "This session is continued from", isCompactSummary=True)
    session.ask("Go<system-reminder>Be good.</system-reminder>")
    read = assembled(Transcript(session.write(tmp_path / "s.jsonl")).events())
    assert [note.text for note in read.notes("asked")] == ["Go"]


def test_a_record_that_stands_twice_is_told_once(tmp_path):
    session = Claude()
    session.ask("Go")
    session.records *= 2
    read = assembled(Transcript(session.write(tmp_path / "s.jsonl")).events())
    assert len(read.happened) == 1


def test_codex_exec_events_are_read_too(tmp_path):
    items = [
        {
            "type": "command_execution",
            "id": "1",
            "command": "ls",
            "aggregated_output": "a",
            "exit_code": 0,
        },
        {"type": "agent_message", "id": "2", "text": "Done."},
        {"type": "file_change", "id": "3", "changes": [{"path": "a.py", "kind": "update"}]},
    ]
    path = tmp_path / "s.jsonl"
    lines = [json.dumps({"type": "item.completed", "item": each}) for each in items]
    path.write_text("\n".join(lines), encoding="utf-8")
    session = assembled(Transcript(path).events())
    assert [step.call.command for step in session.commands] == ["ls"]
    assert session.files == {"a.py": 1}
    assert session.notes("said")[0].text == "Done."


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("took 12.4 us", "latency 1.24e-05 s"),
        ("1,024 MiB free", "bytes 1.07374e+09 B"),
        ("at 91 % of peak", "fraction 0.91"),
        ("3.1x faster", "speedup 3.1"),
        ("812 TFLOP/s", "rate 8.12e+14 op/s"),
        ('"latency_us": 33.1,', "latency 3.31e-05 s"),
        ("ran at 1980 MHz", "1980 MHz"),
    ],
)
def test_a_printed_number_is_told_with_what_a_record_would_call_it(line, meant):
    assert [each.meant for each in numbers(line)] == [meant]


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a-",
        "a.",
        "curl ",
        "/a",
        "-----BEGIN A-----",
        "ssh a ",
        "\\n",
        "a@",
        "x=",
        "1:",
        "-",
        "--a",
        "\\",
    ],
)
def test_no_text_takes_long(piece):
    Redactor().clean(piece * (100_000 // len(piece)))


KEYS = [
    "type",
    "payload",
    "message",
    "content",
    "role",
    "text",
    "input",
    "name",
    "id",
    "call_id",
    "item",
]
KEYS += [
    "output",
    "arguments",
    "command",
    "cwd",
    "uuid",
    "timestamp",
    "metadata",
    "changes",
    "summary",
]
TYPES = [
    "user",
    "assistant",
    "message",
    "response_item",
    "event_msg",
    "function_call",
    "item.completed",
]
TYPES += [
    "function_call_output",
    "tool_use",
    "tool_result",
    "exec_command_end",
    "command_execution",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(TYPES) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)
RECORDS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


@settings(max_examples=400)
@given(
    RECORDS | st.builds(lambda kind, rest: {**rest, "type": kind}, st.sampled_from(TYPES), RECORDS)
)
def test_no_record_ends_the_reading(record):
    read = Transcript(Path("unread"))
    assembled(read.told(json.loads(json.dumps(record))))


def test_a_text_that_was_cleaned_stays_as_it_is():
    redactor = Redactor()
    hidden = [line for _, line, _ in planted.secrets(2) + planted.traces(2)]
    for line in hidden:
        redactor.learn(line)
    once = redactor.clean("\n\n".join(hidden))
    before = redactor.counts.copy()
    assert redactor.clean(once) == once
    assert redactor.counts == before


@pytest.mark.parametrize(
    "text",
    [
        "API_TOKEN=(removed: {})",
        "I took it out (removed: {}) yesterday",
        "password: (removed: {})",
        "(removed: {0}) and later {0}",
    ],
)
def test_a_secret_does_not_hide_in_what_looks_removed(text):
    token = "ghp_" + "16C7e42F29" + "2c6912E7710c" + "838347Ae178B4a"
    redactor = Redactor()
    redactor.learn(text.format(token))
    assert token not in redactor.clean(text.format(token))


def test_a_known_password_does_not_hide_in_what_looks_removed():
    redactor = Redactor()
    redactor.learn("DB_PASSWORD=violet-mill-42")
    assert "violet-mill" not in redactor.clean("it was (removed: violet-mill-42), I think")


@pytest.mark.parametrize("kind", sorted(redaction._OWN_KINDS))
def test_what_another_draft_removed_stays_as_it_is(kind):
    """Also where a word of it is the name of somebody."""
    text = f"it was (removed: {kind}) there"
    redactor = Redactor()
    redactor.learn(text)
    for word in kind.split():
        redactor.name(word, "user name")
    assert redactor.clean(text) == text


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_time_that_no_session_had_dates_no_entry(lab, when):
    session = Claude()
    session.ask("Go")
    for record in session.records:
        record["timestamp"] = when
    today = datetime.now().astimezone().date().isoformat()
    call(session.write(lab.root / "session.jsonl"), "--artifact", "row-sum", "--slug", "x")
    assert not list(lab.root.glob(f"entries/{when[:10]}-*.md"))
    assert [path.name for path in lab.root.glob("entries/*-x.md")] == [f"{today}-x.md"]


def test_the_names_of_this_machine_are_private_from_the_start(monkeypatch):
    monkeypatch.setattr(redaction.platform, "node", lambda: "violet-mill")
    assert Redactor().clean("on violet-mill now") == "on (removed: host name) now"
