"""index-locality: what the report says of lists and of bad files, and every exit of the kernel."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from borrowed import modules_of

from warplog.measure import poisoned

FOLDER = Path(__file__).parents[1] / "artifacts" / "index-locality"

COMPILE = """
import json, sys
sys.path[:0] = sys.argv[1:]
import kernel, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

function = kernel._split
names = list(function.arg_names)
types = dict.fromkeys(("q_nope", "q_pe", "ckv", "kpe"), "*bf16")
types |= {"indices": "*i32", "partial": "*fp32", "partial_lse": "*fp32", "scale": "fp32"}
signature = {name: types.get(name, "constexpr") for name in names}
by16 = {(names.index(name),): [["tt.divisibility", 16]] for name in types if name != "scale"}
made = {}
plans = {exit: kernel.Plan(exit) for exit in kernel.EXITS}
plans |= {
    "none, no pipeline": kernel.Plan("none", stages=1),
    "branch, no pipeline": kernel.Plan("branch", stages=1),
    "none, 8 warps": kernel.Plan("none", warps=8),
    "branch after loads, 8 warps": kernel.Plan("branch after loads", stages=2, warps=8),
}
for name, plan in plans.items():
    constants = dict(EXIT=kernel.EXITS.index(plan.exit), WIDTH=2048, SPLITS=8, BLOCK=64)
    constants |= dict(STAGES=plan.stages, HEADS=16, CKV=512)
    constants |= dict(KPE=64, OPERAND=kernel.OPERAND, INTERPRETED=False)
    given = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(function, signature, given, by16)
    options = {"num_warps": plan.warps}
    made[name] = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
print(json.dumps(made))
"""


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield load


@pytest.fixture(scope="module")
def locality(artifact):
    return artifact("locality")


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    """The split of every exit as Triton compiles it for an H200; in a process of its own."""
    cache = str(tmp_path_factory.mktemp("triton"))
    words = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(FOLDER), str(FOLDER.parent)],
        env=words | {"TRITON_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def facts(locality, *rows, splits=1, page=4):
    return locality.facts_of(torch.tensor(rows), page=page, splits=splits)


def said(locality, capsys, *words):
    """The command's exit status, and what it wrote on its error output."""
    status = locality.main(list(map(str, words)))
    return status, capsys.readouterr().err.strip()


def saved(path, value):
    torch.save(value, path)
    return path


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ([-1, -1, -1, -1], "no row"),
        ([0, 0, 0, 0], "none"),
        ([5, -1, -1, -1], "last"),
        ([-1, -1, -1, 0], "first"),
        ([-1, 0, 1, -1], "both ends"),
        ([0, -1, -1, 1], "interleaved"),
    ],
)
def test_where_padding_stands_is_named(locality, row, where):
    assert facts(locality, row).padding == {where: 1}


def test_a_run_ends_at_a_gap_at_a_padding_and_where_rows_fall(locality):
    found = facts(locality, [4, 5, 7, 8, -1, 9, 8, 7])
    assert (found.runs, found.run_lengths) == ([5], [2, 2, 1, 1, 1])


def test_a_list_without_rows_has_no_run_and_no_page(locality):
    found = facts(locality, [-1, -1], [7, 8])
    assert (found.runs, found.pages, found.run_lengths) == ([0, 1], [0, 2], [2])
    assert found.valid == [0, 2]


def test_order_is_that_of_the_rows_and_not_of_the_padding(locality):
    assert facts(locality, [1, -1, 2, 2]).in_order == 1
    assert facts(locality, [2, -1, 1, 3]).in_order == 0


def test_a_row_on_the_edge_of_a_page_is_on_the_next_one(locality):
    assert facts(locality, [3, 4, -1, -1]).pages == [2]
    assert facts(locality, [0, 3, -1, -1]).pages == [1]


def test_a_page_that_two_tokens_touch_counts_once_in_all(locality):
    found = facts(locality, [0, 1], [3, 9])
    assert (found.pages, found.all_pages) == ([1, 2], 2)


def test_a_row_repeated_in_a_list_is_not_shared_between_tokens(locality):
    found = facts(locality, [5, 5, 6], [6, 7, -1])
    assert (found.unique_rows, found.shared_rows, found.repeated_rows) == (3, 1, 1)
    assert found.sharing == pytest.approx(5 / 3)


def test_only_splits_without_any_row_count_as_padding(locality):
    found = facts(locality, [1, -1, -1, -1, -1, -1, -1, 2], [-1] * 8, splits=4)
    assert found.padding_splits == [2, 4]


def test_the_public_lists_of_2_and_337_rows_have_7_and_6_idle_splits(artifact, locality):
    """337 rows reach into the second split of 256 places."""
    lists = artifact("shared.dsa_lists")
    assert locality.facts_of(lists.contest(0, 3).indices).padding_splits == [7]
    found = locality.facts_of(lists.contest(4, 3).indices)
    assert (found.padding_splits, found.pages) == ([7, 6], [1, 6])


@pytest.mark.parametrize("name", ["lists.pt", "lists.npy", "lists.npz"])
def test_a_file_of_torch_or_numpy_gives_the_same_report(locality, tmp_path, capsys, name):
    rows = [[64, 65, -1, -1], [-1, -1, -1, -1]]
    if name.endswith(".pt"):
        saved(tmp_path / name, torch.tensor(rows, dtype=torch.int32))
    elif name.endswith(".npy"):
        np.save(tmp_path / name, np.array(rows, dtype=np.int64))
    else:
        np.savez(tmp_path / name, indices=np.array(rows, dtype=np.int16))
    assert locality.main([str(tmp_path / name), "--splits", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 tokens of 4 places" in out
    assert "3 of 4 splits" in out


def test_the_command_runs_as_a_module(tmp_path):
    path = saved(tmp_path / "lists.pt", torch.zeros(1, 8, dtype=torch.int32))
    words = [sys.executable, "-m", "locality", str(path)]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("lists:")


def test_an_index_below_minus_one_is_named_with_its_place(locality, tmp_path, capsys):
    path = saved(tmp_path / "low.pt", torch.tensor([[0, 1], [2, -7]]))
    status, problem = said(locality, capsys, path)
    assert status == 2
    assert problem.endswith("token 1, place 1 holds -7: a row is 0 or more; write -1 for padding")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.rand(2, 2), "holds float32: save it as int32 or int64"),
        (torch.zeros(2, 2, dtype=torch.bool), "holds bool: save it as"),
        (
            torch.zeros(8, dtype=torch.int32),
            "has shape [8], not [tokens, places]: save indices[None]",
        ),
        (torch.zeros(2, 2, 2, dtype=torch.int32), "has shape [2, 2, 2]"),
        (torch.zeros(0, 8, dtype=torch.int32), "save at least one token"),
        (torch.zeros(2, 2, dtype=torch.int32).to_sparse(), "to_dense()"),
        ([1, 2], "holds a list: save the tensor alone"),
        ({}, "holds several tensors: choose one with --name, of nothing"),
    ],
)
def test_what_is_no_table_of_integers_is_said(locality, tmp_path, capsys, value, words):
    status, problem = said(locality, capsys, saved(tmp_path / "lists.pt", value))
    assert (status, words in problem) == (2, True), problem
    assert "\n" not in problem


HUGE = (2**20, 2**30)


def header(path, shape):
    """A .npy file whose header claims more than the file holds."""
    with path.open("wb") as file:
        about = {"descr": "<i4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)
    return path


def test_a_header_that_claims_more_memory_than_there_is_is_said(locality, tmp_path, capsys):
    path = header(tmp_path / "lists.npy", HUGE)
    status, problem = said(locality, capsys, path)
    assert status == 2
    assert problem == (
        f"{path}: claims more memory than there is, in {path.stat().st_size} bytes: "
        "save the integers anew, or fewer tokens"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            torch.zeros(1, 1).int().expand(HUGE),
            f"has shape {list(HUGE)}, {2**50} places: save some",
        ),
        (torch.empty(2, 8, device="meta").int(), "has shape [2, 8] on device meta, without values"),
    ],
)
def test_a_tensor_without_so_many_values_behind_it_is_said(
    locality, tmp_path, capsys, value, words
):
    """A view of one number that claims a petabyte, and a tensor without memory."""
    status, problem = said(locality, capsys, saved(tmp_path / "lists.pt", value))
    assert (status, words in problem) == (2, True), problem
    assert "\n" not in problem


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_said_in_one_line(tmp_path):
    """In a process of its own, whose whole error output is that line: torch may warn of them once."""
    lists = torch.nested.nested_tensor([torch.zeros(3).int(), torch.zeros(4).int()])
    path = saved(tmp_path / "lists.pt", lists)
    words = [sys.executable, "-m", "locality", str(path)]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    remedy = "save torch.nested.to_padded_tensor(indices, -1)"
    assert done.stderr == f"{path}: is a nested tensor of 2 lists: {remedy}\n"


def test_an_array_of_too_many_places_is_refused_before_it_is_copied(
    artifact, locality, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(artifact("index_file"), "PLACES_AT_MOST", 15)
    monkeypatch.setattr(torch, "from_numpy", None)
    np.save(tmp_path / "lists.npy", np.zeros((2, 8), np.int32))
    status, problem = said(locality, capsys, tmp_path / "lists.npy")
    assert status == 2
    assert problem.endswith("[2, 8], 16 places: save some of the tokens, 15 places or fewer")


def test_a_view_that_shows_a_list_to_several_tokens_is_read(locality, tmp_path, capsys):
    path = saved(tmp_path / "lists.pt", torch.zeros(1, 8).int().expand(3, 8))
    assert locality.main([str(path)]) == 0
    assert "3 tokens of 8 places" in capsys.readouterr().out


def test_the_median_of_more_values_than_a_quantile_takes_is_the_middle(locality):
    """torch.quantile ends at 2^24 values, which 8192 lists of 2048 places have."""
    values = [1] * 2**23 + [4] + [9] * 2**23
    assert locality.median(values) == 4
    assert locality.median([*values, 9]) == 6.5
    assert (locality.median([]), locality.median([7])) == (0, 7)


@pytest.mark.parametrize("ending", [".pt", ".npy", ".npz"])
@pytest.mark.parametrize("content", [b"", b"no tensor at all"])
def test_a_broken_file_is_one_line_and_no_traceback(locality, tmp_path, capsys, ending, content):
    path = tmp_path / f"lists{ending}"
    path.write_bytes(content)
    status, problem = said(locality, capsys, path)
    assert status == 2
    assert problem.startswith(str(path))
    assert "\n" not in problem


def test_a_file_with_code_in_it_is_refused(locality, tmp_path, capsys):
    """Nothing is unpickled but tensors."""
    status, problem = said(locality, capsys, saved(tmp_path / "lists.pt", {"a": Path("x")}))
    assert status == 2
    assert "torch.save(indices, FILE)" in problem


def test_one_of_several_tensors_is_chosen_by_name(locality, tmp_path, capsys):
    path = saved(tmp_path / "two.pt", {"a": torch.zeros(1, 8).int(), "b": torch.rand(1, 8)})
    assert said(locality, capsys, path)[1].endswith("choose one with --name, of a, b")
    assert locality.main([str(path), "--name", "a"]) == 0
    assert "has no 'c'" in said(locality, capsys, path, "--name", "c")[1]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["lists.txt"], "ends in '.txt'"),
        (["none.pt"], "does not exist"),
        (["lists.pt", "--splits", "3"], "--splits 3: does not divide 8 places; 2 does"),
        (["lists.pt", "--splits", "0"], "--splits 0: does not divide"),
        (["lists.pt", "--page", "0"], "--page 0: use 1 row a page or more"),
        (
            ["lists.pt", "--page", "9" * 22],
            f"--page {'9' * 22}: use 2147483647 rows a page or fewer",
        ),
        (["lists.pt", "--splits", "9" * 22], f"--splits {'9' * 22}: use 65535 splits or fewer"),
    ],
)
def test_a_wrong_word_is_said_with_its_remedy(
    locality, tmp_path, capsys, monkeypatch, words, problem
):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "lists.pt", torch.zeros(1, 8, dtype=torch.int32))
    status, found = said(locality, capsys, *words)
    assert (status, problem in found) == (2, True), found


def edges():
    """One token for each edge of a list of 64 places that two splits of two blocks share."""
    rows = torch.full((5, 64), -1, dtype=torch.int32)
    rows[1, 0] = 2559  # one row, the last of the cache
    rows[2, :40] = torch.arange(100, 140)  # padding last, and the second split half full
    rows[3, -5:] = 7  # padding first, duplicates
    rows[4] = torch.randperm(2560, generator=torch.Generator().manual_seed(1))[:64]
    rows[4, ::3] = -1  # interleaved
    return rows


@pytest.mark.parametrize(
    "name", ["none", "branch", "branch after loads", "bound", "late bound", "return"]
)
def test_every_exit_is_right_on_every_edge(artifact, name):
    """Memory that a split leaves unwritten is NaN, so that reading it shows."""
    kernel, dsa = artifact("kernel"), artifact("shared.dsa")
    problem = dsa.problem(edges(), seed=5, pages=40)
    with poisoned():
        output, lse = kernel.attend(*problem, plan=kernel.Plan(name, block=16, splits=2))
    expected, sums = dsa.reference(*problem)
    assert dsa.wrong_elements(output, expected) == 0
    assert dsa.wrong_elements(lse, sums) == 0


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"exit": "early"}, "exit='early': use one of none, branch"),
        ({"splits": 3}, "splits=3: use a power of two"),
        ({"block": 8}, "block=8: a matrix instruction needs 16"),
        ({"splits": 64}, "use up to 32 splits"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(artifact, named, words):
    kernel = artifact("kernel")
    with pytest.raises(ValueError, match=words):
        kernel.check_plan(kernel.Plan(**named), 2048)


def test_a_scale_that_is_no_number_is_refused(artifact):
    kernel, dsa = artifact("kernel"), artifact("shared.dsa")
    problem = dsa.problem(edges(), seed=5, pages=40)._replace(sm_scale=None)
    with pytest.raises(ValueError, match="sm_scale is None: pass a finite int or float"):
        kernel.attend(*problem, plan=kernel.Plan(block=16, splits=2))


def test_a_branch_around_the_body_takes_the_rows_out_of_the_pipeline(ptx):
    """Their 16-byte copies are gone, and plain loads have come in their place."""
    assert ptx["branch"].count("cp.async.cg.shared") == 0
    assert ptx["none"].count("cp.async.cg.shared") > 0
    assert ptx["branch"].count("ld.global.v4") == ptx["none"].count("ld.global.v4") + 36


@pytest.mark.parametrize("name", ["bound", "late bound", "return"])
def test_an_exit_before_the_loop_leaves_its_loads_as_they_were(ptx, name):
    for opcode in ("cp.async.cg.shared", "cp.async.wait_group", "ld.global.v4"):
        assert ptx[name].count(opcode) == ptx["none"].count(opcode)


def test_a_branch_after_the_loads_leaves_them_in_the_pipeline(artifact, ptx):
    """And deeper than without it: the copies of later blocks stay under way while one is used."""
    waits = artifact("generated").waits
    assert ptx["branch after loads"].count("cp.async.cg.shared") >= ptx["none"].count(
        "cp.async.cg.shared"
    )
    assert max(waits(ptx["branch after loads"])) > max(waits(ptx["none"]))


@pytest.mark.parametrize(
    ("without", "branch"),
    [
        ("none, no pipeline", "branch, no pipeline"),
        ("none, 8 warps", "branch after loads, 8 warps"),
    ],
)
def test_a_pair_that_shows_the_branch_alone_loads_its_rows_alike(ptx, without, branch):
    """As many copies and plain loads of rows, and as many copies left under way."""
    for opcode in ("cp.async.cg.shared", "cp.async.wait_group", "ld.global.v4"):
        assert ptx[branch].count(opcode) == ptx[without].count(opcode)


def test_a_late_bound_asks_for_the_queries_before_it_waits_for_the_list(ptx):
    """The first barrier is that of the list's last row."""
    before = {name: ptx[name].partition("bar.sync")[0] for name in ("bound", "late bound")}
    assert before["bound"].count("ld.global.v4") == 0
    assert before["late bound"].count("ld.global.v4") == 9
    assert before["late bound"].index("ld.global.v2") < before["late bound"].index("ld.global.v4")


@pytest.fixture
def facts_of_plans(artifact, ptx, monkeypatch):
    """A stand-in for the GPU: what attend compiled is what is counted, by subject and metric."""
    generated, kernel = artifact("generated"), artifact("kernel")

    def count(registers, shared, warps=4):
        found = {}

        def attend(plan, compiled):
            code = SimpleNamespace(asm={"ptx": ptx[plan.exit], "cubin": b"cubin"}, n_spills=0)
            code.n_regs, code.metadata = registers, SimpleNamespace(shared=shared)
            compiled.append(code)

        def note(metric, value, *, unit, subject):
            assert unit
            found[subject, metric] = value

        run = SimpleNamespace(count=note, profile=lambda *_, **__: None)
        monkeypatch.setattr(generated, "attend", attend)
        plans = {name: kernel.Plan(name, warps=warps) for name in ("none", "branch")}
        generated.facts_of_the_code(run, plans, ())
        return found

    return count


def test_the_facts_of_the_code_are_those_of_the_kernel_that_ran(facts_of_plans):
    found = facts_of_plans(registers=255, shared=94_976)
    assert found["none", "groups_under_way"] == 0
    assert found["branch", "groups_under_way"] > 0
    assert found["none", "registers"] == 255
    assert found["none", "blocks_that_fit"] == 2


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "blocks"),
    [
        (32, 115_712, 8, 2),  # half of 228 KiB, the driver's share taken off
        (32, 115_713, 8, 1),
        (128, 94_976, 8, 2),
        (147, 94_976, 8, 1),
        (255, 94_976, 8, 1),
        (255, 0, 4, 2),
    ],
)
def test_blocks_fit_by_shared_memory_and_by_registers(
    facts_of_plans, registers, shared, warps, blocks
):
    found = facts_of_plans(registers=registers, shared=shared, warps=warps)
    assert found["none", "blocks_that_fit"] == blocks
