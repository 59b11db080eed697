"""What `check` says of an artifact's scripts without running them."""

import pytest
from factory import Lab, lab_with_entry

from warplog.check import check
from warplog.script import constants, parsed, script_faults


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def said(lab):
    return [str(fault) for fault in check(lab.repository) if "/reproduce.py" in str(fault)]


def test_a_script_that_is_no_python_is_named_with_its_line(lab):
    (lab.root / "artifacts/row-sum/reproduce.py").write_text("x = 1\ndef reproduce(run:\n")
    (fault,) = said(lab)
    assert fault.startswith(
        "artifacts/row-sum/reproduce.py:2: is not Python ('(' was never closed)"
    )


@pytest.mark.parametrize("line", ["from reference import total", "import reference"])
def test_an_own_script_that_is_imported_and_missing_is_named(lab, line):
    (lab.root / "artifacts/row-sum/reproduce.py").write_text(f"import kernel\n{line}\n")
    (fault,) = said(lab)
    assert fault.startswith("artifacts/row-sum/reproduce.py:2: imports reference, and there is no")
    assert "add artifacts/row-sum/reference.py" in fault
    (lab.root / "artifacts/row-sum/reference.py").write_text("total = sum\n")
    assert said(lab) == []


def test_what_python_merely_warns_of_is_no_fault(tmp_path):
    found = Lab(tmp_path / "lab").artifact(reproduce='x = "\\d"\nassert (x, 1)\n')
    assert list(script_faults(found, found.files())) == []


def test_bytes_that_no_script_holds_are_a_fault(tmp_path):
    found = Lab(tmp_path / "lab").artifact()
    (found.folder / "kernel.py").write_bytes(b"x = '\xff'\n")
    assert [each.place.partition(":")[0] for each in script_faults(found, found.files())] == [
        "artifacts/row-sum/kernel.py"
    ]


def test_arithmetic_with_constants_is_a_value():
    tree = parsed("a = 1 << 20\nb = 4 * 1024 + 1\nc = 2**16\nd = x * 9 // 0\ne = 2**1000000\n")
    assert {1 << 20, 4097, 65536, 9} <= constants(tree)
