"""An artifact on its way to another machine, and its record on the way back.

The rule kept here: what is measured there is, file by file, what stood here, under the same harness; a
record comes home whole, and only if the source at home is still the one that it was measured from. The
commit is said by home, which has the history.
"""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from warplog import runner
from warplog.record import dumps, loads
from warplog.runner import Options, Outcome, Where
from warplog.scratch import scratch_folder
from warplog.source import Artifact, closure_digest, file_digest, told
from warplog.store import utc_now, write_whole

_GENERATED = {"__pycache__", ".DS_Store", ".ipynb_checkpoints"}
_CPU = "cpu"


class Parcel(Struct, frozen=True):
    """All that a reproduction elsewhere needs: `files` by their path below `artifacts/`, the digests
    that they had at home, the harness's digest, and how to run.
    """

    slug: str
    files: dict[str, bytes]
    digests: dict[str, str]
    harness: str
    runs: int
    time_limit: float
    gpu: bool


class Reply(Struct, frozen=True):
    """What came of it: a record's bytes, or the reason and what was measured before the fault."""

    record: bytes | None = None
    reason: str | None = None
    output: str = ""
    incomplete: str | None = None
    notes: list[str] = []
    started: bool = True


class Origin(Struct, frozen=True):
    """What home knows of the tree that a parcel was packed from."""

    commit: str | None
    modified: bool | None


def harness() -> str:
    """Return one digest over all modules of this Warplog."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    return closure_digest({path.name: file_digest(path) for path in modules})


def pack(artifact: Artifact, options: Options, *, gpu: bool) -> tuple[Parcel, Origin]:
    """Pack the artifact with all of `artifacts/shared`; on a CPU one run is enough. Links are packed
    as what they lead to.
    """
    root = artifact.folder.parent
    paths = [*artifact.files(), *_shared(root)]
    parcel = Parcel(
        slug=artifact.slug,
        files={path.relative_to(root).as_posix(): path.read_bytes() for path in paths},
        digests=_digests(artifact),
        harness=harness(),
        runs=options.runs if gpu else 1,
        time_limit=options.time_limit,
        gpu=gpu,
    )
    stated = (options.commit, None) if options.commit else artifact.commit()
    return parcel, Origin(*stated)


def fulfil(parcel: Parcel, report: Callable[[Where], None]) -> Reply:
    """Unpack, see that it is what was sent, and reproduce it here; `report` hears of each workload."""
    with scratch_folder() as root:
        for path, content in parcel.files.items():
            target = root / "artifacts" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        artifact = Artifact(parcel.slug, root / "artifacts" / parcel.slug)
        if _digests(artifact) != parcel.digests:
            return Reply(reason="what arrived is not what was sent; start again", started=False)
        if harness() != parcel.harness:
            reason = "Warplog is another there than here; was it edited meanwhile? start again"
            return Reply(reason=reason, started=False)
        gpu = 0 if parcel.gpu else None
        options = Options(parcel.runs, parcel.time_limit, gpu, aside=root / "aside")
        return _reply(runner.reproduce(artifact, options, report))


def receive(
    artifact: Artifact, parcel: Parcel, origin: Origin, reply: Reply, aside: Path | None
) -> Outcome:
    """Return what came home: a record of the source as it is here, or the reason why there is none.

    A node's clock may be ahead, and home's is the one that records are ordered by. Raises Fault where
    the bytes are no whole record.
    """
    if reply.record is None:
        kept = _keep(artifact, reply.incomplete, aside)
        return Outcome(None, reply.reason, reply.output, kept, reply.notes, started=reply.started)
    record = loads(reply.record, f"the record of {artifact.slug} that came back")
    reason = ""
    if record.artifact != artifact.slug or (parcel.gpu and record.device == _CPU):
        reason = "torch found no GPU where Ray gave one: install torch with CUDA on that node"
    elif changed := artifact.changes(record):
        reason = f"{told(changed)} while it ran; start again"
    if reason:
        kept = _keep(artifact, reply.record.decode(), aside)
        return Outcome(None, reason, kept=kept, started=False)
    source = msgspec.structs.replace(record.source, commit=origin.commit, modified=origin.modified)
    recorded = min(record.recorded, utc_now())
    return Outcome(
        msgspec.structs.replace(record, source=source, recorded=recorded), notes=reply.notes
    )


def _reply(outcome: Outcome) -> Reply:
    record = None if outcome.record is None else dumps(outcome.record).encode()
    incomplete = outcome.kept.read_text("utf-8") if outcome.kept else None
    return Reply(record, outcome.reason, outcome.output, incomplete, outcome.notes, outcome.started)


def _keep(artifact: Artifact, text: str | None, aside: Path | None) -> Path | None:
    """Write what cannot be a record beside the records, and say where."""
    if text is None or aside is None:
        return None
    name = f"{utc_now().replace(':', '')}-{os.getpid()}.incomplete.json"
    write_whole(aside / artifact.slug / name, text)
    return aside / artifact.slug / name


def _shared(root: Path) -> list[Path]:
    """Return the files of `artifacts/shared`, which any artifact may use."""
    found = (path for path in (root / "shared").rglob("*") if path.is_file())
    return sorted(path for path in found if not _GENERATED & set(path.parts))


def _digests(artifact: Artifact) -> dict[str, str]:
    """Return the digest of each file that a parcel holds, as seen from the artifact's folder."""
    root = artifact.folder.parent
    return artifact.digests([f"../{path.relative_to(root).as_posix()}" for path in _shared(root)])
