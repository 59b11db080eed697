"""Reads the records of Codex's transcripts: rollouts, with or without an envelope, and `exec --json`.

The rule kept here: what a rollout holds twice (an item, and an event that shows it) is told once; what
Codex itself put before the user's words is none of them.
"""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from warplog.claudecode import words
from warplog.conversation import About, Call, Event, Note, Result, patched

ENVELOPES = {"session_meta", "turn_context", "response_item", "event_msg", "compacted"}
QUIET = {"session_meta", "turn_context", "compacted", "reasoning", "ghost_snapshot", "state"}
QUIET |= {"thread.started", "turn.started", "turn.completed", "item.started", "item.updated"}
QUIET |= {"user_message", "agent_message", "agent_reasoning", "token_count", "web_search_call"}
QUIET |= {"task_started", "task_complete", "turn_aborted", "exec_command_begin"}
QUIET |= {"patch_apply_begin", "patch_apply_end", "item_completed"}
CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
OUTPUTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
READ = {"message", "exec_command_end", *CALLS, *OUTPUTS}
ITEMS = {"agent_message", "command_execution", "file_change"}
_OWN = (
    "<environment_context",
    "<user_instructions",
    "# AGENTS.md",
    "<permissions",
    "<turn_",
    "<INST",
)
_SHELLS = {"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh"}
_HEADER = re.compile(
    r"\A(?:Chunk ID: .*\n|Wall time: .*\n|Original token count: .*\n|Total output lines: .*\n"
    r"|(?:Process exited with code|Exit code:?) (?P<status>-?\d+)\n)+(?:Output:\n?)?"
)
_INNER = re.compile(r"\bcmd\"?\s*:\s*(\"(?:[^\"\\]|\\.)*\")")
_REFUSED = re.compile(
    r"(?:exec command )?(?:rejected|aborted|denied) by (?:the )?user", re.IGNORECASE
)


def kind(record: dict[str, Any]) -> str:
    """Return the type of a record, or of what its envelope holds."""
    inner = record.get("payload") or record.get("item")
    untyped = "session_meta" if "instructions" in record else record.get("record_type")
    outer = str(record.get("type") or untyped or "")
    if outer in ("response_item", "event_msg") and isinstance(inner, dict):
        return str(inner.get("type") or "")
    return outer


def is_record(record: dict[str, Any]) -> bool:
    """Return whether `record` is one that this module reads."""
    item = record.get("item")
    if record.get("type") == "item.completed" and isinstance(item, dict):
        return str(item.get("type")) in ITEMS
    return kind(record) in READ and not isinstance(record.get("message"), dict)


def events(record: dict[str, Any]) -> Iterator[Event]:
    """Yield what a record tells; nothing for one that only keeps the tool's own books."""
    item = record.get("payload") if isinstance(record.get("payload"), dict) else record
    when = str(record.get("timestamp") or "")
    if isinstance(item, dict) and isinstance(item.get("cwd"), str):
        yield About(folder=item["cwd"])
    if not is_record(record) or not isinstance(item, dict):
        return
    if record.get("type") == "item.completed":
        yield from _completed(record["item"], when)
    elif kind(record) == "message":
        yield from _message(item, when)
    elif kind(record) in CALLS:
        yield _call(item, when)
    elif kind(record) == "exec_command_end":
        yield from _ended(item, when)
    else:
        yield _result(str(item.get("call_id") or ""), item.get("output"))


def _message(item: dict[str, Any], when: str) -> Iterator[Event]:
    text = words(item.get("content")).strip()
    role = item.get("role")
    if text and role == "assistant":
        yield Note("said", text, when)
    elif text and role == "user" and not text.startswith(_OWN):
        yield Note("asked", text, when)


def _call(item: dict[str, Any], when: str) -> Call:
    name = str(item.get("name") or "shell")
    given = item.get("arguments") or item.get("input") or item.get("action")
    inputs = _object(given)
    command = _shell(inputs.get("cmd") or inputs.get("command"))
    text = given if isinstance(given, str) and not inputs else ""
    inner = _INNER.search(text)
    if inner is not None:
        command = _text(inner[1])
    files = patched(command) or patched(text) or patched(str(inputs.get("input") or ""))
    identity = str(item.get("call_id") or item.get("id") or "")
    return Call(identity, name, when, "" if patched(command) else command, files)


def _ended(item: dict[str, Any], when: str) -> Iterator[Event]:
    """Yield the result of a command that an event shows, and the command, for a call seen nowhere else."""
    name = str(item.get("call_id") or "")
    command = _shell(item.get("command"))
    if command:
        yield Call(name, "shell", when, command, patched(command))
    output = item.get("aggregated_output") or item.get("stdout") or item.get("stderr") or ""
    yield Result(name, str(output), status=_status(item))


def _completed(item: dict[str, Any], when: str) -> Iterator[Event]:
    name, what = str(item.get("id") or ""), item.get("type")
    if what == "agent_message":
        yield Note("said", str(item.get("text") or ""), when)
        return
    changes = item.get("changes")
    files = tuple(
        str(each.get("path"))
        for each in (changes if isinstance(changes, list) else ())
        if isinstance(each, dict)
    )
    command = _shell(item.get("command")) if what == "command_execution" else ""
    yield Call(name, str(what), when, command, files)
    failed = item.get("status") == "failed"
    yield Result(name, str(item.get("aggregated_output") or ""), failed, status=_status(item))


def _result(name: str, output: Any) -> Result:
    """Return a result: text under a header, JSON in text, or a list of blocks."""
    inner = _object(output)
    meta = inner.get("metadata")
    text = str(inner["output"]) if "output" in inner else words(output)
    status = _status(meta) if isinstance(meta, dict) else None
    header = _HEADER.match(text)
    if header is not None:
        status = int(header["status"]) if header["status"] else status
        text = text[header.end() :]
    refused = bool(_REFUSED.match(text))
    return Result(name, text, failed=bool(status), refused=refused, status=status)


def _status(item: dict[str, Any]) -> int | None:
    status = item.get("exit_code")
    return status if isinstance(status, int) else None


def _shell(command: Any) -> str:
    """Return a command as one would type it, from text or from a list of words."""
    if isinstance(command, list):
        parts = [str(each) for each in command]
        if len(parts) > 2 and parts[0] in _SHELLS and parts[1].startswith("-"):  # noqa: PLR2004
            return parts[-1]
        return shlex.join(parts)
    return command if isinstance(command, str) else ""


def _object(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return given if isinstance(given, dict) else {}


def _text(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted
