"""Reads the records of Claude Code's transcripts: its sessions, and `--output-format stream-json`.

The rule kept here: a record has a `type`; `user` and `assistant` hold a `message` whose content is text or
blocks (text, thinking, tool_use, tool_result). What the tool added by itself is no word of the user's.
"""

import re
from collections.abc import Iterator
from typing import Any

from warplog.conversation import About, Call, Event, Note, Result

QUIET = {"system", "summary", "file-history-snapshot", "queue-operation", "progress", "result"}
QUIET |= {"custom-title", "ai-title", "last-prompt", "attachment", "permission-mode", "mode"}
_FILES = ("file_path", "notebook_path")
_EDITS = {"Edit", "MultiEdit", "Write", "NotebookEdit"}
_ADDED = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_OWN = ("<command-", "<local-command", "<bash-", "<task-", "Caveat: ", "[Request interrupted")
_REFUSED = re.compile(
    r"The user doesn't want to|The tool use was rejected|requires approval|permission to use|<tool_use_error>"
    r"|haven't granted it|\[Request interrupted"
)
_STATUS = re.compile(r"\A(?:Error: )?Exit code (\d+)\n?")


def is_record(record: dict[str, Any]) -> bool:
    """Return whether `record` is one that this module reads."""
    return record.get("type") in ("user", "assistant") and isinstance(record.get("message"), dict)


def events(record: dict[str, Any]) -> Iterator[Event]:
    """Yield what a record tells; nothing for one that only keeps the tool's own books."""
    if isinstance(record.get("cwd"), str):
        yield About(folder=record["cwd"])
    title = record.get("summary") or record.get("customTitle") or record.get("aiTitle")
    if isinstance(title, str):
        yield About(title=title)
    if not is_record(record) or record.get("isMeta") or record.get("isCompactSummary"):
        return
    when = str(record.get("timestamp") or "")
    content = record["message"].get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict):
            yield from _block(block, record["type"], when)


def _block(block: dict[str, Any], who: str, when: str) -> Iterator[Event]:
    match block.get("type"):
        case "text":
            text = _ADDED.sub("", str(block.get("text") or "")).strip()
            if text and (who == "assistant" or not text.startswith(_OWN)):
                yield Note("said" if who == "assistant" else "asked", text, when)
        case "tool_use":
            yield _call(block, when)
        case "tool_result":
            yield _result(block)


def _call(block: dict[str, Any], when: str) -> Call:
    given = block.get("input")
    inputs = given if isinstance(given, dict) else {}
    name = str(block.get("name") or "")
    command = inputs.get("command") if name == "Bash" else ""
    files = tuple(str(inputs[key]) for key in _FILES if name in _EDITS and inputs.get(key))
    return Call(str(block.get("id") or ""), name, when, str(command or ""), files)


def _result(block: dict[str, Any]) -> Result:
    output = _ADDED.sub("", words(block.get("content")))
    failed = block.get("is_error") is True
    status = _STATUS.match(output) if failed else None
    return Result(
        str(block.get("tool_use_id") or ""),
        output[status.end() :] if status else output,
        failed,
        refused=failed and bool(_REFUSED.match(output) or "<tool_use_error>" in output[:200]),
        status=int(status[1]) if status else None,
    )


def words(content: Any) -> str:
    """Return the text of a content that is text or a list of blocks; pictures have none."""
    if isinstance(content, str):
        return content
    texts = [
        str(each.get("text") or "")
        for each in (content if isinstance(content, list) else ())
        if isinstance(each, dict)
    ]
    return "\n".join(filter(None, texts))
