"""Finds what names a person, a machine or a place: home paths, hosts, users, e-mail and network addresses.

The rule kept here: a trace is known by where it stands (a prompt, `uname`, `ls -l`, an author's line), and
the word found there is then private everywhere. Versions are no addresses, and code is no prompt.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import NamedTuple

HOME, PLACE, HOST, USER = "home path", "private path", "host name", "user name"
EMAIL, NETWORK, HARDWARE = "e-mail address", "network address", "hardware address"
COMMON = re.compile(
    r"(?:root|users?|home|localhost|ubuntu|admin|dev|test|runner|work|workspace|node|app|jovyan|vscode"
    r"|host|server|main|git|staff|wheel|docker|daemon|nobody|nogroup|sudo|shared|public|local|builder"
    r"|build|github\.com|gitlab\.com|bitbucket\.org|huggingface\.co|claude|codex|none|null|str|the|and"
    r"|into|from|with|keys|agent|access|login|ec2-user|gpu|your-username|username|name|you|guest"
    r"|default|system|linux|darwin)\Z",
    re.IGNORECASE,
)
_SEP = r"(?:\\{0,16}/|\\{1,16})"
_NAME = r"[A-Za-z_][\w.-]*"
_TLD = (
    "com|org|net|edu|gov|mil|int|info|biz|io|ai|dev|app|me|co|cloud|tech|xyz|name|email|online|site"
    "|science|systems|local|internal|lan|corp|example|test|invalid|[a-z]{2}"
)
_PATTERNS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        (
            rf"(?P<home>(?<![\w~])(?:[A-Za-z]:)?(?:/(?:mnt|var|private|export|net)(?:/\w)?)?"
            rf"{_SEP}(?:home|Users){_SEP}(?P<user>[\w.-]+(?: [\w.-]+(?=\\))?))"
        ),
        r"(?P<home>(?<![\w.~/-])/root(?=[/\s\"'`:;,)]|\Z))",
        r"(?P<home>(?<!\w)-(?:home|Users)-(?P<user>[A-Za-z0-9]+)(?:-[\w.-]+)?)",
        (
            r"(?P<place>(?<![\w.~/:)\]}])/(?:mnt|scratch|gscratch|data|datasets|nfs|lustre|gpfs|workspaces?|Volumes"
            r"|media|srv|projects?|work|cluster|fsx|efs|storage|run/user|tmp/user|var/folders)"
            r"/(?:[\w.+@-]+/)*(?=[\w.+@-]))"
        ),
        (
            rf"(?:^|[\"'])(?:\([\w.-]+\) ?)*\[?(?P<user>{_NAME})@(?P<host>[A-Za-z0-9][\w.-]*)"
            r"(?:(?::[ ]?[~/\w][^\n$#%>]{0,150}|[ ][^\n$#%>\]]{0,150}\])[$#%>\u276f]|[$%\u276f](?=[ ]))"
        ),
        rf"^(?P<user>{_NAME})@(?P<host>[A-Za-z0-9][\w.-]*) [~\w./-]+ [%\u276f] ",
        r"\b(?:Linux|Darwin|FreeBSD) (?P<host>[A-Za-z0-9][\w.-]*) \d+\.\d+[\w.+-]* ",
        (
            r"\b(?:ssh|scp|sftp|rsync|mosh|ssh-copy-id)\s(?:[^\n;|&]{0,200}?\s)?"
            rf"(?P<user>{_NAME})@(?P<host>[A-Za-z0-9][\w.-]*)"
        ),
        (
            r"(?:^|[;&|]\s*|\$ )(?:ssh|mosh)\s+(?:-\w+(?:\s+[^\s-]\S*)??\s+)*"
            r"(?P<host>(?=[\w.-]*[\d.-])[A-Za-z][\w.-]+)(?=\s|$|[\"'])"
        ),
        r"(?:^|[;&|]\s*|\$ )(?:scp|rsync)\s[^\n]{0,200}?(?<![\w/:])(?P<host>[A-Za-z][\w.-]{2,}):[~/.\w]",
        (
            r"\b(?:[hH][oO][sS][tT]_?[nN][aA][mM][eE]|node_?[nN]ame|NodeName|computer_?name|machine_?name"
            r"|SLURM\w*NODE\w*|HOST)\\*[\"']?\s{0,2}[:=]\s{0,2}(?:\\*[\"'](?P<host>[\w.-]{3,})"
            r"|(?P<host2>(?=[\w.-]*[\d-])[A-Za-z][\w.-]{2,})(?![\w.(\[]))"
        ),
        (
            r"(?P<host>(?<![\w.-])(?=[a-z0-9.-]*[\d-])(?:[a-z0-9-]+\.)+(?:internal|local|lan|corp|intra"
            r"|intranet|localdomain|home\.arpa)(?![\w(]|\.\w))"
        ),
        r"(?P<host>(?<![\w.-])(?:[\w-]+\.)+(?:(?:compute(?:-1)?|rds|elb)\.amazonaws\.com|ts\.net|cluster\.local)(?!\w))",
        r"(?P<host>\bip-\d{1,3}(?:-\d{1,3}){3}\b)",
        (
            r"(?:^|[\"'])[ \t]*[-dlbcps][-rwxsStT]{9}[.+@]?\s+\d+\s+"
            rf"(?P<user>{_NAME})\s+(?P<user2>{_NAME})\s+\d"
        ),
        rf"\b(?:ssh|ecdsa|sk-ssh)-\S+ AAAA\S+ (?P<user>{_NAME})@(?P<host>[\w.-]+)",
        rf"^(?P<host>[A-Za-z][\w.-]*):[~/]\S* (?P<user>{_NAME})[$%] ",
        rf"\b[Ll]ogged in (?:to \S+ )?(?:as|account):? (?P<user>{_NAME})",
        r"^\d{1,3}(?:\.\d{1,3}){3}[ \t]+(?P<host>[A-Za-z][\w.-]+)(?:[ \t]+(?P<host2>[A-Za-z][\w.-]+))?\s*$",
        r"\buid=\d+\((?P<user>[\w.-]+)\)(?:\s+gid=\d+\((?P<user2>[\w.-]+)\))?",
        r"\b(?:USER|LOGNAME|USERNAME|SUDO_USER)=[\"']?(?P<user>[A-Za-z_][\w.-]*)",
        (
            r"\b(?:Author|Committer|Co-[Aa]uthored-[Bb]y|Signed-off-by|Reviewed-by|From):\s*"
            r"(?P<user>[^<>\n:]{3,60}?)\s*<"
        ),
        r"\buser\.name[= ]\s*[\"']?(?P<user>[^\"'\n]{3,60}?)[\"'\n]",
        rf"(?P<email>(?<![\w.+-])(?!git@)[\w+-][\w.+-]+@(?:[A-Za-z0-9-]{{2,}}\.)+(?:{_TLD})(?![\w(\[]|\.\w))",
        r"(?P<hardware>(?<![\w:-])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:-]))",
        r"(?P<hardware>\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)",
    )
)
_KINDS = {"home": HOME, "place": PLACE, "host": HOST, "host2": HOST, "user": USER, "user2": USER}
_KINDS |= {"email": EMAIL, "hardware": HARDWARE}
_IPV4 = re.compile(r"(?<![\w.])(?<!\.)\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
_VERSION_BEFORE = re.compile(
    r"(?:[=<>~!]=|[-_vV@]|\b(?:version|release|driver|build|firmware|nvcc|cuda|cudnn|nccl|cublas)"
    r"[\"':=\s]*|\b(?:nvidia|cuda|lib|cu|nv|python|torch|triton)[\w-]*[\s|:=\"']*|\.so\.?)\Z",
    re.IGNORECASE,
)
_BEFORE, _GROUPS_LEAST, _SHORTEST = 60, 2, 3


class Trace(NamedTuple):
    """Where a trace stands; `word` is what is private wherever else it stands, or empty."""

    start: int
    end: int
    kind: str
    word: str = ""


def traces(text: str) -> Iterator[Trace]:
    """Yield every private trace in `text`; they may overlap, as a user's name does with a home path."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            for group, value in match.groupdict().items():
                kind = _KINDS[group]
                named = kind in (HOST, USER)
                if value is None or (named and not is_private(value)):
                    continue
                word = value if named or kind == EMAIL else ""
                yield Trace(*match.span(group), kind, word)
    for match in _IPV4.finditer(text):
        if _is_address(match[0]) and not _VERSION_BEFORE.search(
            text, max(0, match.start() - _BEFORE), match.start()
        ):
            yield Trace(*match.span(), NETWORK)
    for match in _IPV6.finditer(text):
        if _is_long_address(match[0]):
            yield Trace(*match.span(), NETWORK)


def is_private(word: str) -> bool:
    """Return whether a user's or a host's name says who or where; `root` and `localhost` do not."""
    return len(word) >= _SHORTEST and not COMMON.match(word) and not word.isdigit()


def _is_address(words: str) -> bool:
    """Return whether four numbers are the address of a machine that is not any machine's own."""
    try:
        address = ipaddress.IPv4Address(words)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or words.startswith("255."))


def _is_long_address(words: str) -> bool:
    """Return whether groups with colons are an IPv6 address; ``::1``, times and slices are none."""
    groups = [group for group in words.split(":") if group]
    if len(groups) < _GROUPS_LEAST or len("".join(groups)) < _GROUPS_LEAST * 2:
        return False
    try:
        address = ipaddress.IPv6Address(words)
    except ValueError:
        return False
    return not address.is_loopback and any(each.isdigit() for each in words)
