"""The options that several commands share, each with the one line that `--help` shows.

The rule kept here: an option means the same wherever it stands.
"""

from pathlib import Path
from typing import Annotated

import typer

Names = Annotated[list[str] | None, typer.Argument(help="Artifacts or entries, by slug or file.")]
Publish = Annotated[bool, typer.Option("--publish", help="Add the record to the artifact.")]
Runs = Annotated[int, typer.Option(min=1, max=100, help="Fresh processes.")]
Limit = Annotated[float, typer.Option(min=1, help="Seconds that one process may take.")]
Gpu = Annotated[
    int | None, typer.Option(min=0, help="Which GPU of this host, counted from 0; else the first.")
]
Commit = Annotated[
    str | None,
    typer.Option(help="The commit that this tree is exactly at, where it travelled without git."),
]
Out = Annotated[Path | None, typer.Option(help="Where unpublished records go.")]
On = Annotated[
    str | None, typer.Option(help="Measure on the Ray cluster at this address; `local` starts one.")
]
Device = Annotated[
    str | None,
    typer.Option(help="With --on: which GPU, as records/ calls it; else the one of the entry."),
]
