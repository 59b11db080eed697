"""A workload that the script never measures is doubted on a machine without a GPU."""

import factory
import pytest

from warplog.doubt import Offered, doubts
from warplog.quantity import Quantity
from warplog.workload import parse_workload, spell

SOURCE = "for rows, length in run.sizes():\n    run.compare(rows=rows, length=length, k=1 << 11)\n"
OFFERED = [Offered(full=[[4096, 1024], [4096, 8192]], tiny=[[3, 40]])]


@pytest.fixture
def tried(tmp_path):
    lab = factory.Lab(tmp_path / "lab")
    rows = [factory.measured("error", "kernel", [0], rows=3, length=40, k=2)]
    return factory.record_of(lab.artifact(), rows, device="cpu")


def said(tried, workload, offered=OFFERED, source=SOURCE):
    asked = Quantity(metric="latency", subject="kernel", workload=parse_workload(workload))
    return [words for _, words in doubts({"q": asked}, tried, [], source, offered)]


@pytest.mark.parametrize("workload", ["rows=4096 length=8192", "k=2048", "k=11"])
def test_a_size_that_a_gpu_gets_is_not_doubted(tried, workload):
    assert said(tried, workload) == []


def test_a_misspelt_name_of_a_size_is_doubted_though_it_is_a_word_of_the_script(tried):
    source = f"# one row after the other\n{SOURCE}"
    assert said(tried, "row=4096", source=source) == ["no size 'row'; use rows"]


def test_a_size_that_only_a_gpu_measures_is_not_doubted(tried):
    assert said(tried, "warps=8", source=f"{SOURCE}run.count(warps=8)\n") == []


def test_a_value_that_the_script_never_takes_is_doubted(tried):
    (words,) = said(tried, "rows=4096 length=5000")
    assert words.startswith("no size length=5000 is measured; use")
    assert "length=1024" in words


@pytest.mark.parametrize(
    "offered",
    [[], [Offered(None, [[3, 40]])], [Offered([[1], [2]], [])], [Offered([[9]], [[7]])]],
)
def test_where_nobody_can_say_which_sizes_a_gpu_gets_none_is_doubted(tried, offered):
    assert said(tried, "length=5000", offered) == []


def test_sizes_of_unequal_length_are_one_set(tried):
    offered = [Offered(full=[[4096], [1024, 8192]], tiny=[[3, 40]])]
    assert said(tried, "length=8192", offered) == []
    assert said(tried, "length=5000", offered) != []


@pytest.mark.parametrize("text", ["rows=4096, length=4096", "rows=4096,length=4096", "rows=4096,"])
def test_a_comma_between_sizes_is_refused(text):
    with pytest.raises(ValueError, match="holds a comma; put spaces between sizes"):
        parse_workload(text)


@pytest.mark.parametrize("value", ["a,", "a,b=1", "1,2", ","])
def test_a_text_with_a_comma_can_still_be_spelled(value):
    assert parse_workload(spell({"kind": value})) == {"kind": value}
