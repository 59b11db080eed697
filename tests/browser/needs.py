"""What the tests of the site need beside Python: said where it is missing.

Without it a test is skipped with the reason, except in continuous integration, where it fails: what
nobody looked at was not tested.
"""

import importlib
import os
import shutil

import pytest

_REMEDY = "python -m pip install '.[test]'"


def missing(what):
    """Skip the test, or the whole file, for want of `what`; fail it in continuous integration."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}; continuous integration must have it")
    pytest.skip(what, allow_module_level=True)


def package(name):
    """The package called `name`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return missing(f"the package {name} is not installed: {_REMEDY}")


def program(*names):
    """The path of the first program of `names` that is on the PATH."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or missing(f"none of {', '.join(names)} is on the PATH")
