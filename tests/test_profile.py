"""Evidence that is not time: instruction counts, launches, and Nsight Compute's table."""

import json
import shutil
from contextlib import contextmanager

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warplog import profile
from warplog.run import Run

PTX = """
.visible .entry add(
{
    @%p1 ld.global.v4.b32 { %r1, %r2 }, [ %rd1 + 0 ];
    ld.global.b32 %r5, [ %rd2 ];
    // st.global.b32 in a comment
    @!%p2 cp.async.cg.shared.global [ %r9 ], [ %rd4 ], 0x10;
    st.global.v4.b32 [ %rd3 + 0 ], { %r1, %r2 };
}
"""
SASS = """
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E R8, desc[UR4][R2.64] ;
        /*0030*/               @P1 STG.E.128 desc[UR4][R2.64], R4 ;
"""
RANGE = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
TABLE = f"""==PROF== Connected to process 618
"ID","Kernel Name","{RANGE}","dram__bytes_read.sum","sm__warps.avg.pct_of_peak","gpu__time_duration.sum"
"","","","Mbyte","%","us"
"0","gather","""
TABLE += """ "<default domain>:warplog0:none","1,024.5","40","12.5"
"1","reduce"," <default domain>:warplog0:none","0.5","60","2.5"
"2","gather"," <default domain>:warplog10:none","7","10","1"
"""


@pytest.mark.parametrize(
    ("opcode", "count"),
    [("ld.global", 2), ("ld.global.v4", 1), ("cp.async", 1), ("st", 1), ("ld.glob", 0)],
)
def test_ptx_is_counted_by_whole_parts_of_the_opcode(opcode, count):
    assert profile.instructions(PTX, opcode) == count


@pytest.mark.parametrize(("opcode", "count"), [("LDG", 2), ("LDG.E.128", 1), ("STG", 1)])
def test_sass_is_counted_behind_addresses_and_predicates(opcode, count):
    assert profile.instructions(SASS, opcode) == count


def counted(name, counters):
    return {"range": name, "subject": name, "counters": counters, "workload": {"rows": 1}}


def test_counters_are_summed_over_a_range_in_si_and_ratios_averaged():
    counters = ["dram__bytes_read.sum", "sm__warps.avg.pct_of_peak", "gpu__time_duration.sum"]
    found = profile.read_counters(TABLE, [counted("warplog0", counters)])
    values = {each["metric"]: (each["runs"][0][0], each["unit"]) for each in found}
    assert values["dram__bytes_read.sum"] == (pytest.approx(1.025e9), "B")
    assert values["sm__warps.avg.pct_of_peak"] == (50, "%")
    assert values["gpu__time_duration.sum"] == (pytest.approx(15e-6), "s")


def test_range_1_is_not_range_10_and_an_unread_counter_is_absent():
    assert profile.read_counters(TABLE, [counted("warplog1", ["dram__bytes_read.sum"])]) == []
    assert profile.read_counters(TABLE, [counted("warplog10", ["no_such_metric"])]) == []


def test_a_table_without_rows_gives_nothing():
    assert profile.read_counters("==ERROR== no permission", [counted("warplog0", ["x"])]) == []


def test_nsight_compute_leaves_the_clocks_alone(tmp_path):
    words = profile.command(["a", "b"], tmp_path / "log", ["python", "x"])
    assert "--clock-control=none" in words
    assert words[-2:] == ["python", "x"]
    assert "--metrics=a,b" in words


def test_a_run_counts_instructions_without_a_gpu(run, written):
    run.profile("ours", code=PTX, counters=["ptx:ld.global"], block=64)
    assert written.metric("ptx:ld.global", "ours")["runs"] == [[2]]


def test_a_profile_of_nothing_is_refused(run):
    with pytest.raises(ValueError, match="needs a call"):
        run.profile("ours", counters=["x"])


def test_only_the_counting_process_runs_the_call_and_marks_its_range(written, monkeypatch):
    order = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("wait"))
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", order.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: order.append("pop"))
    counting = Run(written.append, counting=profile.Counting(written.append))
    counting.profile("ours", lambda: order.append("call"), counters=["x"], rows=3)
    counting.count("n", 1, unit="n", subject="s")
    counting.compare({"a": None}, None, None, n=1)
    assert order == ["call", "wait", "warplog0", "call", "wait", "pop"]
    assert [each["event"] for each in written] == ["range"]


def test_a_script_can_see_that_only_counters_are_kept(run, written):
    assert Run(written.append, counting=profile.Counting(written.append)).counting
    assert not run.counting


def test_on_a_gpu_a_run_asks_for_the_counters(run, written):
    run.on_gpu = True
    run.profile("ours", lambda: pytest.fail("not in this process"), counters=["x", "y"])
    assert written == [{"event": "counters", "counters": ["x", "y"]}]


def test_launches_are_read_from_the_trace_in_order(run, monkeypatch):
    import torch.profiler

    facts = {"grid": [2, 1, 1], "block": [32, 4, 1], "registers per thread": 8, "shared memory": 0}
    events = [
        {"cat": "kernel", "ts": 2, "name": "second", "args": facts},
        {"cat": "cpu_op", "ts": 0, "name": "aten::sum", "args": {}},
        {"cat": "kernel", "ts": 1, "name": "first", "args": facts},
    ]

    class Trace:
        def export_chrome_trace(self, path):
            with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as torch does
                json.dump({"traceEvents": events}, file)

    @contextmanager
    def fake(**_):
        yield Trace()

    monkeypatch.setattr(torch.profiler, "profile", fake)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert run.launches(lambda: None) == []
    run.on_gpu = True
    first, second = run.launches(lambda: None)
    assert (first.name, second.name) == ("first", "second")
    assert (first.grid, first.block, first.registers) == ((2, 1, 1), (32, 4, 1), 8)


def _copy(source, target, size, BLOCK: tl.constexpr):  # noqa: N803 - Triton's way
    at = tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < size), mask=at < size)


@pytest.mark.skipif(shutil.which("true") is None, reason="needs a POSIX system")
def test_a_cubin_for_sm_90_is_disassembled(run, written):
    kernel = triton.runtime.jit.JITFunction(_copy)
    source = ASTSource(
        kernel, {"source": "*fp32", "target": "*fp32", "size": "i32", "BLOCK": "constexpr"},
        {(3,): 1024},
    )  # fmt: skip
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    run.profile("copy", code=compiled.asm["cubin"], counters=["sass:LDG", "sass:STG"])
    for counter in ("sass:LDG", "sass:STG"):
        assert written.metric(counter, "copy")["runs"][0][0] >= 1
