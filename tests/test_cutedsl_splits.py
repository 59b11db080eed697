"""What is special about cutedsl-splits: plans, widths of loads, the swizzle's units, the code for sm_90a."""

import importlib
import json
import os
import subprocess
import sys
import threading
import types
from importlib import util

import pytest
import torch
from borrowed import ARTIFACTS, modules_of

FOLDER = ARTIFACTS / "cutedsl-splits"
ABSENT = "CuTe DSL is not installed: pip install -r artifacts/cutedsl-splits/requirements-gpu.txt"
with_package = pytest.mark.skipif(
    not all(map(util.find_spec, ("cutlass", "tvm_ffi"))), reason=ABSENT
)

WIDTHS = {
    "scalar": 2, "adjacent pair": 2, "vector copy": 16, "vector copy, swizzled": 16,
    "words, layout recast": 4, "words, layout kept": 4,
    "asynchronous, 16 bytes": 16, "asynchronous, 4 bytes": 4, "bulk copy": 1024,
}  # fmt: skip


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield load


@pytest.fixture(scope="module")
def code(artifact, tmp_path_factory):
    """The PTX of every way to gather, and of a plan of each kind, compiled in processes of their own."""
    kernel, plan = artifact("kernel"), artifact("plan")
    plans = {
        "whole": plan.Plan(),
        "last": plan.Plan(splits=2),
        "cluster": plan.Plan(splits=2, cluster=True),
        "guarded": plan.Plan(splits=32, load="scalar", lists="guarded"),
    }
    folder = tmp_path_factory.mktemp("code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        wanted = [*((way, 0) for way in WIDTHS), *((each, 2048) for each in plans.values())]
        kernel.build(wanted)
        found = {way: kernel.code_of(way)[0] for way in WIDTHS}
        return found | {name: kernel.code_of(each, 2048)[0] for name, each in plans.items()}


def test_a_plan_fills_the_multiprocessors_and_no_more(artifact):
    plan = artifact("plan")
    for tokens in (1, 2, 7, 8, 16, 33, 64, 66, 67, 132, 256):
        splits = plan.plan_for(tokens).splits
        assert splits * tokens <= plan.MULTIPROCESSORS or splits == 1
        assert splits in (1, 32) or 2 * splits * tokens > plan.MULTIPROCESSORS


def test_every_plan_of_the_script_can_be_built_for_the_public_width(artifact):
    plan, steps = artifact("plan"), artifact("steps")
    for each in (*steps.every_plan(), *map(plan.plan_for, range(1, 257))):
        plan.check_plan(each, 2048)


def test_clusters_are_chosen_where_all_of_them_fit_at_once(artifact):
    plan = artifact("plan")
    for tokens, splits, cluster in (
        (8, 16, 0),
        (9, 8, 1),
        (15, 8, 1),
        (16, 8, 0),
        (30, 4, 1),
        (31, 4, 0),
        (66, 2, 1),
    ):
        chosen = plan.plan_for(tokens)
        assert (chosen.splits, chosen.cluster) == (splits, bool(cluster)), tokens
        assert bool(chosen.weighers) == (not cluster), tokens


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"splits": 3}, "splits=3: use a power of two"),
        ({"splits": 0}, "splits=0: use a power of two"),
        ({"splits": 128}, "use up to 64"),
        ({"stages": 3}, "stages=3: shared memory holds 1 or 2 tiles"),
        ({"weighers": 3}, "weighers=3: 16 heads are shared"),
        ({"splits": 16, "cluster": True}, "16 splits in a cluster: use 2, 4, 8"),
        ({"splits": 2, "cluster": True, "weighers": 1}, "2 splits in a cluster: .* no weighers"),
        ({"load": "bulk"}, "load='bulk': use one of asynchronous"),
        ({"lists": "all"}, "lists='all': use one of written down"),
    ],
)
def test_a_plan_that_cannot_be_built_is_refused_with_its_remedy(artifact, given, told):
    plan = artifact("plan")
    with pytest.raises(ValueError, match=told):
        plan.check_plan(plan.Plan(**given), 2048)


def test_only_plans_whose_last_block_weighs_count_arrivals(artifact):
    """Counters are set to zero in a graph, which is a kernel more."""
    plan = artifact("plan").Plan
    assert plan(splits=2).counted
    assert not any(
        each.counted for each in (plan(), plan(splits=2, weighers=1), plan(splits=2, cluster=True))
    )


def test_tensors_off_the_gpu_are_refused_before_anything_is_compiled(artifact):
    kernel = artifact("kernel")
    with pytest.raises(ValueError, match=r"on cpu: this needs a GPU of compute capability 9\.0"):
        kernel.copy_rows(torch.zeros(4, 512), torch.zeros(16, dtype=torch.int32), way="scalar")


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(artifact, monkeypatch):
    kernel = artifact("kernel")
    monkeypatch.setattr(kernel, "NEEDED", ("torch", "no_such_module"))
    assert kernel.missing() == f"no module no_such_module: {kernel.INSTALL}"
    assert (FOLDER.parents[1] / kernel.INSTALL.split()[-1]).is_file()
    monkeypatch.setattr(kernel, "NEEDED", ("torch",))
    assert kernel.missing() == ""


def test_without_the_package_the_script_says_so_and_checks_what_needs_none(
    artifact, monkeypatch, written
):
    from warplog.run import Run

    script = artifact("reproduce")
    monkeypatch.setattr(artifact("kernel"), "missing", lambda: "no module cutlass")
    script.reproduce(Run(written.append, seed=3))
    assert written.metric("installed", "CuTe DSL of today")["runs"] == [[0]]
    assert written.metric("error", "split-K in Triton")
    assert not [
        each for each in written if each.get("measurement", {}).get("metric") == "misplaced"
    ]


def test_the_older_version_is_looked_for_in_the_folder_that_is_named(
    artifact, monkeypatch, tmp_path
):
    older = artifact("shared.cutedsl_older")
    monkeypatch.setenv("WARPLOG_CUTEDSL_OLDER", str(tmp_path))
    assert older.modules() is None
    found = tmp_path / "nvidia_cutlass_dsl" / "python_packages"
    (found / "cutlass").mkdir(parents=True)
    assert older.modules() == found
    variables = older.environment(found)
    assert variables["PYTHONPATH"].split(os.pathsep)[:2] == [str(found), str(tmp_path)]


@pytest.mark.parametrize(
    ("line", "width"),
    [
        ("ld.global.b16 \t%rs1, [%rd9];", 2),
        ("@%p1 ld.global.nc.b16 %rs1, [%rd9+2];", 2),
        ("ld.global.v4.b32 \t{%r1, %r2, %r3, %r4}, [%rd1];", 16),
        ("ld.global.v2.u32 {%r1, %r2}, [%rd1];", 8),
        ("cp.async.ca.shared.global [%r24], [%rd9], 16, %r25;", 16),
        ("cp.async.cg.shared.global [%r24], [%rd9], 4;", 4),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], %r3, [%r4];",
            1024,
        ),
    ],
)
def test_the_width_of_an_instruction_is_read_off_its_text(artifact, line, width):
    list_of_rows = ["ld.global.b32 %r1, [%rd1];"] * 4
    assert artifact("widths").widths(
        "\n".join([*list_of_rows, line, "st.shared.b16 [%r1], %rs1;"])
    ) == [width]


def test_the_gathers_reference_gives_zeros_for_padding(artifact):
    table = torch.randn(8, 512).bfloat16()
    rows = torch.tensor([7, -1, 0], dtype=torch.int32)
    found = artifact("reference").listed_rows(table, rows)
    assert torch.equal(found[0], table[7])
    assert torch.equal(found[2], table[0])
    assert not found[1].any()


@with_package
def test_every_writer_but_the_one_that_keeps_the_layout_puts_each_element_in_its_place(artifact):
    swizzle = artifact("swizzle")
    found = {writer: swizzle.misplaced(writer) for writer in swizzle.WRITERS}
    assert found.pop(swizzle.BY_WORDS_KEPT) == 6144
    assert set(found.values()) == {0}


@with_package
def test_a_swizzle_is_the_same_exchange_of_bytes_for_every_width_of_a_word(artifact):
    """Bits 4 to 6 of the byte by bits 7 to 9: 8, 16, 32 and 128 bits, each recast from bf16."""
    swizzle = artifact("swizzle")
    places = torch.arange(16)[:, None]
    for bits in (8, 16, 32, 128):
        at = torch.arange(1024 * 8 // bits)[None, :] * (bits // 8)
        plain = at // 128 * 2048 + places * 128 + at % 128
        assert torch.equal(swizzle.offsets(bits).long(), plain ^ (plain >> 7 & 7) << 4), bits


@with_package
def test_the_copies_and_the_matrix_unit_find_an_element_at_one_address(artifact):
    """The first count bf16 in a layout, the second bytes in a pointer."""
    assert artifact("swizzle").apart() == {"keys": 0, "values": 0, "queries": 0, "weights": 0}


@with_package
@pytest.mark.parametrize("way", WIDTHS)
def test_a_way_to_gather_has_the_width_that_the_entry_tells(artifact, code, way):
    assert set(artifact("widths").widths(code[way])) == {WIDTHS[way]}


@with_package
def test_rows_arrive_by_asynchronous_copies_of_16_bytes_past_the_first_cache(code):
    for name in ("whole", "last", "cluster"):
        copies = [line for line in code[name].splitlines() if "cp.async.c" in line]
        copies = [line for line in copies if "commit_group" not in line]
        assert len(copies) == 18
        assert all("cp.async.cg" in line and ", 16" in line for line in copies)


@with_package
def test_a_tile_takes_36_products_for_scores_and_32_for_outputs(code):
    for name in ("whole", "last", "cluster", "guarded"):
        products = [line for line in code[name].splitlines() if line.startswith("wgmma.mma_async")]
        flipped = [line for line in products if line.endswith("1, 1, 0;")]
        assert (len(products), len(flipped)) == (68, 32)
        assert code[name].count("wgmma.wait_group") == 2
        assert "ld.local" not in code[name]


@with_package
def test_a_cluster_meets_and_counts_no_arrivals(code):
    assert code["cluster"].count("barrier.cluster.wait") == 1
    assert "atom." not in code["cluster"]
    assert code["last"].count("atom.global.acq_rel") == 1


@with_package
def test_the_reported_kernel_loads_rows_two_bytes_at_a_time(code):
    assert code["guarded"].count("ld.global.b16") == 72


@with_package
def test_a_kernel_that_does_not_compile_is_told_with_what_the_compiler_says(
    artifact, monkeypatch, tmp_path
):
    kernel = artifact("kernel")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"build\.py"):
        kernel.build([("no such way", 0)])


@with_package
def test_the_older_version_compiles_at_the_second_try_where_there_is_no_driver(
    artifact, monkeypatch, tmp_path
):
    """It looks for one before the first compilation of a process, and not again."""
    build, tries = artifact("build"), []

    def compiled(subject, *_, **__):
        tries.append(subject)
        if len(tries) == 1:
            raise RuntimeError(f"ICE: {build.NO_DRIVER}")
        return type("Kernel", (), {"__ptx__": "code"})

    monkeypatch.setattr(build, "compiled", compiled)
    build.write("scalar", 0, str(tmp_path / "scalar.ptx"))
    assert len(tries) == 2
    assert (tmp_path / "scalar.ptx").read_text() == "code"
    assert "Error" in build.attempt(("scalar", 0, str(tmp_path / "scalar.ptx" / "below.ptx")))


def test_one_process_is_asked_for_all_that_is_not_kept(artifact, monkeypatch, tmp_path):
    """Importing CuTe DSL takes as long as compiling a kernel."""
    kernel, plan, asked = artifact("kernel"), artifact("plan").Plan, []

    def run(_command, *, input, **_):  # noqa: A002 - as subprocess names it
        asked.append(json.loads(input))
        return subprocess.CompletedProcess([], 0, "noise\n" + json.dumps([""] * len(asked[-1])))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel.metadata, "version", lambda _: "1")
    monkeypatch.setattr(subprocess, "run", run)
    there = kernel.kept("bulk copy")
    there.parent.mkdir(parents=True)
    there.touch()
    kernel.build([("scalar", 0), ("scalar", 0), ("bulk copy", 0), (plan(splits=2), 2048)])
    kernel.build([("bulk copy", 0)])
    assert [(subject, width) for subject, width, _ in asked.pop()] == [
        ("scalar", 0),
        ({**plan().__dict__, "splits": 2}, 2048),
    ]
    assert not asked


def test_processes_that_end_before_they_compiled_are_said_and_this_one_compiles(
    artifact, monkeypatch, tmp_path, capsys
):
    kernel, written = artifact("kernel"), []
    (tmp_path / "build.py").write_text("raise SystemExit('no memory')")
    monkeypatch.setattr(kernel, "FOLDER", tmp_path)
    monkeypatch.setattr(kernel, "kept", lambda *_: tmp_path / "kernel.o")
    builder = type(sys)("build")
    builder.write = lambda *job: written.append(job)
    monkeypatch.setitem(sys.modules, "build", builder)
    assert kernel.made("scalar", 0) == tmp_path / "kernel.o"
    assert written == [("scalar", 0, str(tmp_path / "kernel.o"))]
    assert "build.py ended with 1: no memory" in capsys.readouterr().out


def test_an_object_file_that_does_not_load_costs_a_compilation_and_a_line(
    artifact, monkeypatch, tmp_path, capsys
):
    kernel, path = artifact("kernel"), tmp_path / "kernel.o"

    def refuse(_path):
        raise RuntimeError("not an object file")

    monkeypatch.setattr(kernel, "made", lambda *_: path)
    monkeypatch.setattr(kernel, "loaded", refuse)
    builder = type(sys)("build")
    builder.compiled = lambda subject, width, _folder: (subject, width)
    monkeypatch.setitem(sys.modules, "build", builder)
    kernel.function.cache_clear()
    assert kernel.function("scalar") == ("scalar", 0)
    kernel.function.cache_clear()
    said = capsys.readouterr().out
    assert "kernel.o: RuntimeError: not an object file; compiled in this process" in said


@pytest.mark.parametrize(("off", "right"), [(0.006, True), (0.02, False)])
def test_an_answer_may_be_off_by_a_hundredth_as_where_the_rival_is_from(
    artifact, monkeypatch, written, off, right
):
    """The CUDA C++ kernel's blocks pass on outputs that are rounded to bf16."""
    from warplog.run import Run

    script, run = artifact("reproduce"), Run(written.append, seed=3)
    exact = script.attention

    def rounded(*inputs):
        output, lse = exact(*inputs[:6])
        return (output * (1 + off)).float(), lse.float()

    monkeypatch.setattr(script, "amounts", lambda *_: {})
    script.timed(run, {"rival": rounded}, script.drawn(run, "uniform", 1), "goals")
    failed = [each["measurement"].get("failed") for each in written if "measurement" in each]
    assert (failed == [None]) == right


def test_all_that_is_compiled_is_compiled_side_by_side(artifact, monkeypatch):
    """Ours, the older version's gathers, the CUDA C++ kernels, flashinfer's: each waits for the others."""
    script, started = artifact("reproduce"), threading.Barrier(4, timeout=5)
    made = {"gather": {"WAYS": ("scalar",)}, "widths": {"build_older": lambda _: started.wait()}}
    for name, content in made.items():
        module = type(sys)(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    asked = []

    def build(subjects):
        asked.extend(subjects)
        started.wait()

    monkeypatch.setattr(script.kernel, "build", build)
    monkeypatch.setattr(script, "build_decode", lambda *_: started.wait())
    monkeypatch.setattr(script, "Rivals", lambda _: started.wait() >= 0)
    assert script.prepare(types.SimpleNamespace(tiny=False))
    assert ("scalar", 0) in asked
    assert {(plan, 2048) for plan in artifact("steps").every_plan()} < set(asked)


def test_what_the_direction_of_the_splits_hangs_on_is_compiled_and_checked(artifact):
    steps = artifact("steps")
    plans = steps.OTHER_SPLITS.values()
    assert {(plan.splits, plan.weighers) for plan in plans} == {(8, 1), (8, 16), (64, 16)}
    assert all((plan.load, plan.lists) == ("scalar", "guarded") for plan in plans)
    assert set(plans) <= set(steps.checked()) <= steps.every_plan()


def test_a_gather_must_move_the_list_each_row_once_and_the_copies(artifact):
    rows = torch.arange(1000, dtype=torch.int32).repeat(2)
    rows[::8] = -1
    named = len(set(rows.tolist()) - {-1})
    moved = artifact("gathers").traffic(rows)
    assert moved == (int(0.99 * named) + 2000) * 1024 + 2000 * 4


def test_the_script_of_the_build_writes_json_that_it_reads(artifact):
    kernel, plan = artifact("kernel"), artifact("plan")
    assert plan.Plan(**json.loads(kernel.named(plan.Plan(splits=4)))) == plan.Plan(splits=4)
    assert json.loads(kernel.named("scalar")) == "scalar"


def test_the_older_versions_installer_asks_for_its_own_folder(monkeypatch, tmp_path):
    """What would be run is looked at, nothing is installed."""
    asked = []
    monkeypatch.setenv("WARPLOG_CUTEDSL_OLDER", str(tmp_path))
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda words, **_: asked.append(words) or subprocess.CompletedProcess(words, 0),
    )
    source = (ARTIFACTS / "shared" / "cutedsl_older.py").read_text("utf-8")
    with pytest.raises(SystemExit, match="0"):
        exec(compile(source, "cutedsl_older.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own file
    assert asked[0][0] == sys.executable
    assert asked[0][-3] == str(tmp_path)
    assert all("==4.4.2" in word for word in asked[0][-2:])


def test_the_definition_is_that_of_the_shared_problem(artifact):
    assert artifact("reference").attention is importlib.import_module("shared.dsa").reference


def test_counters_are_a_streams_own_and_a_graphs_own(artifact, monkeypatch):
    counters = artifact("shared.counters").counters
    held = {"stream": 7, "capturing": False}
    stream = type("Stream", (), {"cuda_stream": property(lambda _: held["stream"])})()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: held["capturing"])
    first = counters(5, torch.device("cpu"))
    assert counters(5, torch.device("cpu")) is first
    held["stream"] = 8
    assert counters(5, torch.device("cpu")) is not first
    held.update(stream=7, capturing=True)
    assert counters(5, torch.device("cpu")) is not first
    assert not first.any()


def test_an_import_cannot_start_the_driver_and_afterwards_it_starts_as_ever(artifact, monkeypatch):
    untouched = artifact("shared.cutedsl_older").driver_untouched
    result = types.SimpleNamespace(CUDA_ERROR_NOT_INITIALIZED=3)
    driver = types.SimpleNamespace(CUresult=result, cuInit=lambda _: (0,))
    bindings = types.SimpleNamespace(driver=driver)
    for name, module in {
        "cuda": types.SimpleNamespace(bindings=bindings),
        "cuda.bindings": bindings,
        "cuda.bindings.driver": driver,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    with untouched():
        assert driver.cuInit(0) == (3,)
    assert driver.cuInit(0) == (0,)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with untouched():
        pass
