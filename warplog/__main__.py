"""`python -m warplog` is the command `warplog`; a Python that it cannot run in is told so in one line."""

import sys

_NEEDED = (3, 11)
_PACKAGES = {"msgspec", "rich", "typer", "yaml"}


def start() -> None:
    """Run the command, or say what this Python lacks."""
    if sys.version_info < _NEEDED:
        found = ".".join(map(str, sys.version_info[:2]))
        sys.exit(f"warplog: this is Python {found}; use Python 3.11 or newer")
    try:
        from warplog.cli import main  # noqa: PLC0415 - what it needs may be missing
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PACKAGES:
            raise
        remedy = (
            "run `pip install -e .` with it (to measure: -e '.[measure]'), or leave --no-venv out"
        )
        sys.exit(f"warplog: {sys.executable} has no package {missing.name}; {remedy}")
    main()


if __name__ == "__main__":
    start()
