"""What a test has to say when it finds something: all of it, one finding a line."""

import pytest

_SHOWN = 60


def nothing(findings):
    """Fail with the `findings`, if there are any."""
    lines = list(findings)
    if lines:
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        pytest.fail("\n".join([f"{len(lines)} found:", *lines[:_SHOWN], *more]), pytrace=False)
