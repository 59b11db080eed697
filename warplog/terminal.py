"""Where a command prints its tables.

The rule kept here: a file or a pipe is wide enough for a table, whatever the terminal was.
"""

from rich.console import Console

PIPE_WIDTH = 120


def console() -> Console:
    """Return the console of this process; where nobody watches, a wide one without colours."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PIPE_WIDTH)
