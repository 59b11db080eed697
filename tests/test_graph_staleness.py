"""The cached-graph dispatcher and its fault table, on a simulated driver: what each check must see."""

import contextlib
import ctypes
import enum
import inspect
import itertools
import json
import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from borrowed import modules_of

FOLDER = Path(__file__).parents[1] / "artifacts" / "graph-staleness"
NAMES = [path.stem for path in FOLDER.glob("*.py")]
PLANS = ("kernel", "last")


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield SimpleNamespace(**{name: load(name) for name in NAMES})


@pytest.fixture(scope="module")
def plans(artifact):
    return {name: artifact.paths.Plan(block=16, splits=2, reduction=name) for name in PLANS}


@pytest.fixture
def machine(artifact):
    """A simulated driver and what loads the kernels' twins for it."""
    simulation = artifact.simulation.Simulation()
    return machine_of(artifact, simulation)


def machine_of(artifact, simulation):
    load, start = artifact.simulation.loader(simulation), artifact.simulation.start_twins
    return artifact.cases.Machine(simulation, load, start)


@pytest.fixture
def operation(artifact, machine, plans):
    return artifact.kernel.SplitK(plans["kernel"], machine.load)


@pytest.fixture
def draw(artifact):
    """Draw a call by seed."""

    def case(seed=1, tokens=2, width=64, scale=0.1):
        size = artifact.cases.Size(tokens, width, 4)
        return artifact.cases.draw(size, seed, scale, torch.device("cpu"))

    return case


@pytest.fixture(scope="module")
def table(artifact, plans):
    """The fault table: by (reduction, node, subject) what was found, and by (kind, subject) its totals."""
    found, totals = {}, {}

    class Run:
        seed, device, on_gpu = 3, torch.device("cpu"), False

        @staticmethod
        def count(metric, value, *, unit, subject, node=None, reduction=None, kind=None):
            assert unit in ("elements", "calls", "faults")
            if kind is None:
                found.setdefault((reduction, node, subject), {})[metric] = value
            else:
                totals[kind, subject] = value

    machine = machine_of(artifact, artifact.simulation.Simulation())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small operations: on busy cores, threads wait for each other
    artifact.fault_table.record(Run(), machine, plans, artifact.cases.Size(2, 64, 4))
    torch.set_num_threads(threads)
    return found, totals


@pytest.fixture(scope="module")
def rows(table):
    """The rows of what is forgotten; the list of values itself is right."""
    return {row: found for row, found in table[0].items() if row[1] != "list"}


# The table


@pytest.mark.parametrize("reduction", PLANS)
def test_the_table_has_a_row_for_every_argument_of_the_kernels(artifact, rows, reduction):
    """The study kernels' own signatures say which there are, and Triton adds two."""
    nodes = {"split": artifact.paths.study._split}
    if reduction == "kernel":
        nodes["reduce"] = artifact.paths.study._reduce
    for node, kernel in nodes.items():
        parameters = inspect.signature(kernel.fn).parameters.values()
        names = [each.name for each in parameters if each.annotation is inspect.Parameter.empty]
        listed = [subject for kind, where, subject in rows if (kind, where) == (reduction, node)]
        assert listed == [*names, "global_scratch", "profile_scratch"]


@pytest.mark.parametrize("reduction", PLANS)
def test_a_dispatcher_that_forgets_nothing_is_right_and_nothing_is_caught(rows, reduction):
    assert set(rows[reduction, "all", "nothing"].values()) == {0}


def test_the_audit_catches_every_forgotten_parameter_and_every_short_key(rows):
    missed = [row for row, found in rows.items() if not found["caught_by_audit"]]
    assert [row[2] for row in missed] == ["nothing", "nothing"]


def test_an_audit_that_does_not_poison_misses_what_did_not_change(rows):
    missed = {row[2] for row, found in rows.items() if not found["caught_by_plain_audit"]}
    assert missed >= {"global_scratch", "profile_scratch"}
    assert not missed & {"q_nope", "scale", "partial", "output"}


def test_the_shadow_catches_every_wrong_output_and_nothing_else(rows):
    for row, found in rows.items():
        assert found["caught_by_shadow"] == (found["wrong_elements"] > 0), row


def test_the_switch_changes_every_wrong_output_and_no_other(rows):
    for row, found in rows.items():
        assert found["caught_by_switch"] == (found["wrong_elements"] > 0), row


def test_a_shadow_by_another_launcher_catches_every_wrong_output_and_nothing_else(rows):
    for row, found in rows.items():
        assert found["caught_by_other_shadow"] == (found["wrong_elements"] > 0), row


@pytest.mark.parametrize("reduction", PLANS)
def test_a_wrong_list_of_values_fools_all_checks_but_another_launcher(table, reduction):
    """Graph, direct launch, audit and shadow have one list of values, and agree on what is wrong."""
    found = dict(table[0][reduction, "list", "scale"])
    assert found.pop("wrong_elements") > 0
    caught = {name for name, value in found.items() if value}
    assert caught == {"caught_by_other_shadow"}


def test_a_wrong_list_of_values_is_a_kind_of_its_own_in_the_totals(table):
    """So that what is forgotten is counted as before."""
    totals = table[1]
    assert totals["list", "table"] == len(PLANS)
    assert [totals["list", name] for name in ("switch", "audit", "shadow")] == [2, 2, 2]
    assert totals["list", "shadow by Triton"] == totals["wrong", "shadow by Triton"] == 0
    assert totals["wrong", "table"] == 28


@pytest.mark.parametrize("name", ["q_nope", "q_pe", "ckv", "kpe", "indices", "scale"])
@pytest.mark.parametrize("reduction", PLANS)
def test_a_forgotten_input_makes_a_wrong_output(rows, reduction, name):
    assert rows[reduction, "split", name]["wrong_elements"] > 0


@pytest.mark.parametrize(("reduction", "node"), [("kernel", "reduce"), ("last", "split")])
def test_a_forgotten_output_is_not_written_and_the_earlier_one_is(rows, reduction, node):
    found = rows[reduction, node, "output"]
    assert found["unwritten_elements"] == found["wrong_elements"] > 0
    assert found["corrupted_elements"] > 0


def test_scratch_that_only_one_node_is_told_of_makes_a_wrong_output(rows):
    for node in ("split", "reduce"):
        assert rows["kernel", node, "partial"]["wrong_elements"] > 0


@pytest.mark.parametrize("reduction", PLANS)
def test_scratch_that_all_nodes_forget_leaves_the_output_right_and_writes_elsewhere(
    rows, reduction
):
    found = rows[reduction, "all", "partial and partial_lse"]
    assert found["wrong_elements"] == 0
    assert found["corrupted_elements"] > 0
    assert found["caught_by_audit"] == 1


@pytest.mark.parametrize("reduction", PLANS)
def test_a_key_without_the_tokens_writes_past_a_smaller_output_that_is_right(rows, reduction):
    found = rows[reduction, "key", "fewer tokens"]
    assert (found["wrong_elements"], found["caught_by_shadow"]) == (0, 0)
    assert found["corrupted_elements"] > 0


@pytest.mark.parametrize("reduction", PLANS)
def test_seven_pointers_are_enough_only_while_the_scale_stays(rows, reduction):
    assert rows[reduction, "all", "all but seven pointers"]["wrong_elements"] > 0
    assert rows[reduction, "all", "all but seven pointers, same scale"]["wrong_elements"] == 0


# The kernels' parameters

COMPILE = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import kernel, torch, triton
from cases import Size, draw
from shared.splitk import Plan
from triton.backends.compiler import GPUTarget


class Utilities:
    loaded = 0

    def load_binary(self, *_):
        self.loaded += 1
        return 1, self.loaded, 32, 0, 1024

    def get_device_properties(self, _):
        return {"max_shared_mem": 232448}


class Driver:
    utils = Utilities()
    launcher_cls = staticmethod(lambda *_: None)
    get_current_device = get_current_stream = staticmethod(lambda *_: 0)
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))


triton.runtime.driver.set_active(Driver())
kernel.check_device = lambda _: None
case = draw(Size(2, 2048, 64), 1, 0.1, torch.device("cpu"))
for reduction in ("kernel", "last"):
    operation = kernel.SplitK(Plan(reduction=reduction))
    steps = operation.steps(case.tensors)
    for step, loaded in zip(steps, operation.kept(case.tensors)):
        print(json.dumps([step.layout.types, step.block, loaded.kept.asm["ptx"]]))
"""


def test_the_compiled_kernels_take_the_parameters_that_we_pack_in_that_order():
    """As Triton compiles them for sm_90, in a process where its interpreter does not take its place."""
    words = [sys.executable, "-c", COMPILE, str(FOLDER), str(FOLDER.parent)]
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 3
    for types, block, ptx in lines:
        entry = ptx[ptx.index(".entry") : ptx.index(".reqntid")]
        sizes = re.findall(r"\.param \.(\w\d\d)", entry)
        assert sizes == ["u64" if type_.startswith("*") else "f32" for type_ in types]
        assert f".reqntid {block}\n" in ptx


def test_a_kernel_that_was_compiled_for_other_parameters_is_refused(artifact, plans, draw):
    def load(*_):
        return artifact.kernel.Loaded(1, 0, 4, {"q_nope": "*fp32"}, None)

    with pytest.raises(RuntimeError, match="split was compiled for"):
        artifact.kernel.SplitK(plans["kernel"], load).steps(draw().tensors)


def test_a_type_without_a_slot_is_refused(artifact):
    with pytest.raises(ValueError, match="x is fp64"):
        artifact.parameters.Layout.of({"x": "fp64"})


def test_a_constant_is_no_parameter_and_the_hidden_ones_are(artifact):
    layout = artifact.parameters.Layout.of({"x": "*bf16", "WIDTH": "constexpr", "n": "i32"})
    assert layout.names == ("x", "n", "global_scratch", "profile_scratch")
    assert layout.sizes == (8, 4, 8, 8)


@pytest.mark.parametrize("values", [(1, 2, 3), (1, 2, 3, 4, 5)])
def test_too_few_or_too_many_values_are_refused(artifact, values):
    layout = artifact.parameters.Layout.of({"x": "*bf16", "n": "fp32"})
    with pytest.raises(struct.error):
        artifact.parameters.Arguments(layout).write(values)


def test_what_was_written_is_read_through_the_list_of_addresses(artifact):
    layout = artifact.parameters.Layout.of({"x": "*bf16", "n": "fp32"})
    arguments = artifact.parameters.Arguments(layout)
    arguments.write((7, 0.5, 0, 9))
    found = artifact.parameters.read(arguments.pointer, layout.sizes)
    assert found == [struct.pack("Q", 7), struct.pack("f", 0.5), bytes(8), struct.pack("Q", 9)]


def test_a_kernel_with_more_parameters_than_its_layout_is_refused(artifact, machine):
    layout = artifact.parameters.Layout.of({"x": "*bf16"})
    function = machine.driver.add({"x": "*bf16", "y": "*bf16"}, lambda *_: None)
    with pytest.raises(ValueError, match="use the signature"):
        artifact.parameters.check_layout(machine.driver, function, layout)


# The dispatcher


class Copy:
    """An operation that copies 32 bytes of any dtype, and looks at nothing that it is given."""

    tensors, outputs, scalars = 2, 1, 1

    def __init__(self, artifact, driver):
        signature = {"x": "*fp32", "y": "*fp32", "n": "i32"}
        function = driver.add(signature, lambda _, values: ctypes.memmove(values[1], values[0], 32))
        layout = artifact.parameters.Layout.of(signature)
        self.step = artifact.graph.Step("copy", function, (1, 1, 1), 32, 0, layout)

    def steps(self, *_):
        return (self.step,)

    def scratch(self, _):
        return ()

    def values(self, addresses, scalars, _):
        return ((*addresses, *scalars, 0, 0),)


def dispatcher_of(artifact, machine, operation, **options):
    return artifact.dispatcher.Dispatcher(machine.driver, operation, **options)


def test_every_call_sets_every_node_and_starts_one_graph(artifact, machine, operation, draw):
    dispatcher, case = dispatcher_of(artifact, machine, operation), draw()
    for _ in range(3):
        dispatcher(case.tensors, case.scale)
    calls = machine.driver.calls
    assert calls == {"cuGraphExecKernelNodeSetParams": 6, "cuGraphLaunch": 3}


def test_other_tensors_and_another_scalar_give_their_own_answer(artifact, machine, operation, draw):
    dispatcher = dispatcher_of(artifact, machine, operation)
    for seed, scale in ((1, 0.1), (2, 0.1), (2, 0.3), (1, 0.2)):
        case = draw(seed, scale=scale)
        dispatcher(case.tensors, scale)
        assert case.wrong() == 0


def test_without_the_cache_no_graph_is_made(artifact, machine, operation, draw):
    dispatcher, case = dispatcher_of(artifact, machine, operation, cache=False), draw()
    dispatcher(case.tensors, case.scale)
    assert case.wrong() == 0
    assert machine.driver.calls == {"cuLaunchKernel": 2}


def test_each_shape_and_each_stream_has_a_graph_and_scratch_of_its_own(
    artifact, machine, operation, draw
):
    streams = itertools.cycle([0, 1])
    dispatcher = dispatcher_of(artifact, machine, operation, stream=lambda _: next(streams))
    for tokens in (2, 4):
        case = draw(tokens=tokens)
        for _ in range(4):
            dispatcher(case.tensors, case.scale)
    entries = dispatcher._entries.values()
    assert len(entries) == 4
    assert len({entry.scratch_addresses[0] for entry in entries}) == 4


def test_the_oldest_graph_makes_room_and_is_given_back(artifact, machine, operation, draw):
    dispatcher = dispatcher_of(artifact, machine, operation, entries=2)
    for tokens in (1, 2, 3):
        case = draw(tokens=tokens)
        dispatcher(case.tensors, case.scale)
        assert case.wrong() == 0
    assert machine.driver.calls["cuGraphExecDestroy"] == 1
    dispatcher.close()
    assert machine.driver.calls["cuGraphExecDestroy"] == 3


def test_the_graph_that_was_used_last_is_kept(artifact, machine, operation, draw):
    dispatcher = dispatcher_of(artifact, machine, operation, entries=2)
    for tokens in (1, 2, 1, 3):
        case = draw(tokens=tokens)
        dispatcher(case.tensors, case.scale)
    kept = [entry.graph.steps[0].grid[0] for entry in dispatcher._entries.values()]
    assert kept == [1, 3]


def test_a_graph_that_a_call_is_using_is_given_back_after_it(artifact, machine, operation, draw):
    dispatcher, case = dispatcher_of(artifact, machine, operation), draw()
    dispatcher(case.tensors, case.scale)
    values, inside, closed = operation.values, threading.Event(), threading.Event()

    def slow(*given):
        inside.set()
        assert closed.wait(10)
        return values(*given)

    operation.values = slow
    other = draw(2)
    thread = threading.Thread(target=dispatcher, args=(other.tensors, other.scale))
    thread.start()
    assert inside.wait(10)
    dispatcher.close()
    assert "cuGraphExecDestroy" not in machine.driver.calls
    closed.set()
    thread.join()
    assert other.wrong() == 0
    assert machine.driver.calls["cuGraphExecDestroy"] == 1


def test_calls_of_several_threads_are_counted_once_each(artifact, machine, plans, operation, draw):
    shadows = []

    def launcher(tensors, scalars):
        shadows.append(threading.get_ident())
        machine.start(plans["kernel"], tensors, scalars[0], operation.scratch(tensors))

    dispatcher = dispatcher_of(artifact, machine, operation, shadow_every=3, launcher=launcher)
    cases = [draw(seed) for seed in range(3)]

    def calls(case):
        for _ in range(4):
            dispatcher(case.tensors, case.scale)

    threads = [threading.Thread(target=calls, args=(case,)) for case in cases]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(shadows) == 4
    assert [case.wrong() for case in cases] == [0, 0, 0]


def test_an_output_that_is_an_input_is_no_stale_graph(artifact, machine, operation, draw):
    """The shadow reads the inputs before the replay overwrites one of them."""
    dispatcher = dispatcher_of(artifact, machine, operation, shadow_every=1)
    case = draw()
    expected, _ = artifact.cases.reference(*case.tensors[:5], case.scale)
    tensors = [*case.tensors[:5], case.tensors[0], case.tensors[6]]
    dispatcher(tensors, case.scale)
    assert artifact.cases.wrong_elements(tensors[5], expected) == 0


def test_a_launcher_of_ones_own_takes_the_place_of_the_shadows_launch(
    artifact, machine, operation, draw
):
    given = []
    dispatcher = dispatcher_of(
        artifact, machine, operation, shadow_every=1, launcher=lambda *words: given.append(words)
    )
    case = draw()
    with pytest.raises(artifact.graph.StaleGraph, match="of output 0 are not those"):
        dispatcher(case.tensors, case.scale)
    ((tensors, scalars),) = given
    assert tensors[:5] == case.tensors[:5]
    assert all(torch.isnan(shadow).all() for shadow in tensors[5:])
    assert scalars == (case.scale,)
    assert "cuLaunchKernel" not in machine.driver.calls


DTYPES = ["bool", "int8", "float8_e4m3fn", "bfloat16", "int32", "int64", "float64", "complex64",
          "complex128"]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_outputs_of_every_width_are_compared_by_their_bits(artifact, name):
    differing, unwritten = artifact.memory.differing, artifact.memory.unwritten
    one = torch.ones(3).to(getattr(torch, name))
    other = unwritten(one)
    assert (other.dtype, other.shape) == (one.dtype, one.shape)
    assert differing(one, one.clone()) == 0
    assert differing(one, other) == 3
    assert differing(one[0], other[0]) == 1
    if one.is_floating_point():
        assert torch.isnan(other.float()).all()


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("more", "scalars", "message"),
    [
        (0, (), "0 scalars: pass 1"),
        (0, (0.1, 0.2), "2 scalars: pass 1"),
        (0, ("0.1",), "a scalar is '0.1': pass an int or a float"),
        (0, (None,), "a scalar is None"),
        (1, (0.1,), "8 tensors: pass 7, the outputs last"),
        (-1, (0.1,), "6 tensors: pass 7"),
    ],
)
def test_too_many_or_too_few_are_refused_before_anything_is_started(
    artifact, machine, operation, draw, cached, more, scalars, message
):
    """Also where a graph is at hand, and without one."""
    dispatcher, case = dispatcher_of(artifact, machine, operation), draw()
    dispatcher(case.tensors, case.scale)
    dispatcher.cache = cached
    before = dict(machine.driver.calls)
    tensors = [*case.tensors, *case.tensors][: len(case.tensors) + more]
    with pytest.raises(ValueError, match=message):
        dispatcher(tensors, *scalars)
    assert machine.driver.calls == before


def test_a_call_that_is_refused_makes_no_graph_and_takes_none_away(
    artifact, machine, operation, draw
):
    dispatcher, case = dispatcher_of(artifact, machine, operation, entries=1), draw()
    dispatcher(case.tensors, case.scale)
    other = draw(tokens=4)
    with pytest.raises(ValueError, match="sm_scale is nan: pass a finite int or float"):
        dispatcher(other.tensors, float("nan"))
    assert len(dispatcher._entries) == 1
    assert "cuGraphExecDestroy" not in machine.driver.calls


def test_a_whole_scalar_has_a_graph_for_each_value_and_a_float_does_not(
    artifact, machine, operation, draw
):
    """Triton makes other code for an integer of 1 or one that 16 divides."""
    dispatcher, seen = dispatcher_of(artifact, machine, operation), []
    steps = operation.steps
    operation.steps = lambda tensors, scalars: seen.append(scalars) or steps(tensors, scalars)
    for scale in (0.1, 0.2, 1.0, 1, 2, 1):
        case = draw(scale=scale)
        dispatcher(case.tensors, scale)
        assert case.wrong() == 0
    assert seen == [(0.1,), (1,), (2,)]


@pytest.mark.parametrize("cache", [True, False])
def test_tensors_on_another_gpu_than_torchs_are_refused(
    artifact, machine, operation, monkeypatch, cache
):
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    dispatcher = dispatcher_of(artifact, machine, operation, cache=cache)
    tensors = [SimpleNamespace(device=torch.device("cuda", 1))] * 7
    message = r"on cuda:1 and torch's current GPU is cuda:0: call inside torch\.cuda\.device\(1\)"
    with pytest.raises(ValueError, match=message):
        dispatcher(tensors, 0.1)
    assert machine.driver.calls == {}


def test_the_key_tells_devices_apart(artifact, machine, operation, draw):
    dispatcher, tensors = dispatcher_of(artifact, machine, operation), draw().tensors
    elsewhere = [*tensors[:6], tensors[6].to("meta")]
    assert dispatcher._key(tensors, (0.1,), 0) != dispatcher._key(elsewhere, (0.1,), 0)


@pytest.mark.parametrize("options", [{}, {"cache": False}, {"shadow_every": 1}])
def test_what_is_allocated_for_a_launch_is_allocated_on_its_stream(
    artifact, machine, operation, draw, monkeypatch, options
):
    """On a stream of the caller's too, which torch does not know."""
    current, seen = [0], []

    @contextlib.contextmanager
    def on_stream(stream, _):
        current.append(stream)
        yield
        current.pop()

    def noted(function):
        return lambda *given: seen.append((function.__name__, current[-1])) or function(*given)

    monkeypatch.setattr(artifact.dispatcher, "on_stream", on_stream)
    for name in ("unwritten", "differing"):
        monkeypatch.setattr(artifact.dispatcher, name, noted(getattr(artifact.dispatcher, name)))
    monkeypatch.setattr(operation, "scratch", noted(operation.scratch))
    dispatcher = dispatcher_of(artifact, machine, operation, stream=lambda _: 5, **options)
    case = draw()
    dispatcher(case.tensors, case.scale)
    names = {"scratch"} | ({"unwritten", "differing"} if "shadow_every" in options else set())
    assert set(seen) == {(name, 5) for name in names}


def test_a_stream_of_the_callers_is_made_torchs_and_torchs_own_is_left_alone(artifact, monkeypatch):
    streams, gpu = artifact.streams, torch.device("cuda", 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 3, raising=False)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda *words, **_: ("external", *words))
    monkeypatch.setattr(torch.cuda, "default_stream", lambda _: "default")
    assert streams.on_stream(5, gpu) == ("external", 5)
    assert streams.on_stream(0, gpu) == "default"
    for stream, device in ((3, gpu), (5, torch.device("cpu"))):
        assert isinstance(streams.on_stream(stream, device), contextlib.nullcontext)


def test_a_cache_for_no_graph_is_refused(artifact, machine, operation):
    with pytest.raises(ValueError, match="entries=0"):
        dispatcher_of(artifact, machine, operation, entries=0)


def test_an_audit_that_finds_something_stops_before_the_launch(artifact, machine, operation, draw):
    fault = artifact.faults.Fault("scale", "split", "kernel", frozenset({("split", "scale")}))
    broken = artifact.faults.make(machine, operation, fault, audit_every=2)
    case = draw()
    broken(case.tensors, case.scale)
    with pytest.raises(
        artifact.graph.StaleGraph, match=r"holds another split\.scale .*nothing was"
    ):
        broken(case.tensors, case.scale)
    assert machine.driver.calls["cuGraphLaunch"] == 1


def test_an_audited_call_is_right_and_so_is_the_next(artifact, machine, operation, draw):
    dispatcher = dispatcher_of(artifact, machine, operation, audit_every=2)
    for seed in range(4):
        case = draw(seed)
        dispatcher(case.tensors, case.scale)
        assert case.wrong() == 0


def test_the_audit_names_code_and_grid_that_are_another_shapes(artifact, machine, operation, draw):
    fault = artifact.faults.Fault("longer", "key", "kernel", missing="width")
    broken = artifact.faults.make(machine, operation, fault, audit_every=1)
    for width, expectation in ((64, None), (128, r"split\.code")):
        case = draw(width=width)
        if expectation is None:
            broken(case.tensors, case.scale)
        else:
            with pytest.raises(artifact.graph.StaleGraph, match=expectation):
                broken(case.tensors, case.scale)


def test_a_shadow_says_how_many_elements_of_which_output(artifact, machine, operation, draw):
    fault = artifact.faults.Fault("lse", "reduce", "kernel", frozenset({("reduce", "lse")}))
    broken = artifact.faults.make(machine, operation, fault, shadow_every=2)
    first, second = draw(1), draw(2)
    broken(first.tensors, first.scale)
    with pytest.raises(artifact.graph.StaleGraph, match="32 of 32 elements of output 1"):
        broken(second.tensors, second.scale)


def test_outputs_at_one_address_hide_a_forgotten_output_and_two_make_half_the_calls_wrong(
    artifact, machine, plans, draw
):
    cases = [draw(1), draw(2)]
    found = []
    for places in (1, 2):
        allocate = artifact.addresses.in_turn(cases[0].tensors[0], places)
        wrong = artifact.addresses.wrong_calls(
            machine, plans["kernel"], cases, 8, allocate, dropped=False
        )
        found.append(wrong)
    assert found == [0, 4]


def test_the_parts_that_are_timed_alone_run_and_only_whole_calls_start_something(
    artifact, machine, plans, draw
):
    case = draw()
    for name, way in artifact.parts.host_only_ways(machine, plans["kernel"]).items():
        before = dict(machine.driver.calls)
        way(*case.tensors[:5], case.scale)
        started = {
            each
            for each in ("cuGraphLaunch", "cuLaunchKernel")
            if machine.driver.calls.get(each, 0) != before.get(each, 0)
        }
        assert bool(started) == (not name.endswith("alone")), name


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("kind", ["strides", "address", "negative"])
def test_memory_that_no_key_tells_from_other_is_refused_where_the_operation_takes_it(
    artifact, machine, draw, plans, kind, cached
):
    """With and without a graph: the dispatcher must not trust an operation to refuse it."""
    case = draw()
    operation = artifact.kernel.SplitK(plans["kernel"], machine.load)
    dispatcher = dispatcher_of(artifact, machine, operation)
    dispatcher(case.tensors, case.scale)
    dispatcher.cache, before = cached, dict(machine.driver.calls)
    steps = operation.steps(case.tensors)
    operation.steps = lambda *_: steps
    spoil = {
        "strides": lambda tensor: tensor.mT.contiguous().mT,
        "address": misaligned,
        "negative": torch._neg_view,
    }[kind]
    spoilt = spoil(case.tensors[0])
    with pytest.raises(ValueError, match=r"pass a contiguous copy .*torch\.contiguous_format"):
        dispatcher([spoilt, *case.tensors[1:]], case.scale)
    assert machine.driver.calls == before
    copy = spoilt.clone(memory_format=torch.contiguous_format)
    dispatcher([copy, *case.tensors[1:]], case.scale)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_a_conjugated_view_is_refused_and_what_it_stands_for_is_taken(
    artifact, machine, cached, known
):
    x, y = torch.full((4,), 1 + 2j), torch.zeros(4, dtype=torch.complex64)
    dispatcher = dispatcher_of(artifact, machine, Copy(artifact, machine.driver), cache=cached)
    if known:
        dispatcher([x, y], 1)
    with pytest.raises(ValueError, match="its conjugate"):
        dispatcher([x.conj(), y], 1)
    dispatcher([x.conj().clone(memory_format=torch.contiguous_format), y], 1)
    assert torch.equal(y, torch.full((4,), 1 - 2j))


# After a check has failed


def unscaled(artifact):
    return artifact.faults.Fault("scale", "split", "kernel", frozenset({("split", "scale")}))


def test_after_an_audit_that_found_something_no_call_is_answered_wrong(
    artifact, machine, operation, draw
):
    """Its graph is full of poison: it goes, and each later call is audited."""
    broken = artifact.faults.make(machine, operation, unscaled(artifact), audit_every=3)
    case = draw(1)
    for _ in range(2):
        broken(case.tensors, case.scale)
    for seed in range(4):
        with pytest.raises(artifact.graph.StaleGraph, match=r"holds another split\.scale"):
            broken(draw(seed).tensors, 0.3)
        assert len(broken._entries) == 0
    assert broken.audit_every == 1
    calls = machine.driver.calls
    assert (calls["cuGraphLaunch"], calls["cuGraphExecDestroy"]) == (2, 5 - 1)


def test_after_a_shadow_that_found_something_each_call_has_one(artifact, machine, operation, draw):
    broken = artifact.faults.make(machine, operation, unscaled(artifact), shadow_every=2)
    broken(draw(1).tensors, 0.1)
    with pytest.raises(artifact.graph.StaleGraph):
        broken(draw(2).tensors, 0.2)
    assert (len(broken._entries), broken.shadow_every) == (0, 1)
    case = draw(3)
    broken(case.tensors, 0.1)
    assert case.wrong() == 0
    with pytest.raises(artifact.graph.StaleGraph):
        broken(draw(4).tensors, 0.2)


def test_a_call_that_waits_for_a_graph_that_is_found_stale_does_not_use_it(
    artifact, machine, operation, draw
):
    """It has looked the graph up before another call's audit, which holds its lock, fails."""
    dispatcher, case = dispatcher_of(artifact, machine, operation, audit_every=2), draw()
    dispatcher(case.tensors, case.scale)
    (entry,) = dispatcher._entries.values()
    auditing, waiting, raised = threading.Event(), threading.Event(), []

    def update_audited(*_):
        auditing.set()
        assert waiting.wait(10)
        raise artifact.graph.StaleGraph("the audit")

    def call():
        try:
            dispatcher(case.tensors, case.scale)
        except artifact.graph.StaleGraph as error:
            raised.append(str(error))

    def late(*given):
        if threading.current_thread() is threads[0]:
            threads[1].join(10)
        return drop(*given)

    entry.graph.update_audited, values = update_audited, operation.values
    drop, dispatcher._drop = dispatcher._drop, late
    threads = [threading.Thread(target=call) for _ in range(2)]
    threads[0].start()
    assert auditing.wait(10)
    operation.values = lambda *given: waiting.set() or values(*given)
    threads[1].start()
    for each in threads:
        each.join()
    assert sorted(raised)[1:] == ["the audit"]
    assert min(raised).startswith("another call has just found")
    assert machine.driver.calls["cuGraphLaunch"] == 1
    dispatcher(case.tensors, case.scale)
    assert case.wrong() == 0
    assert entry not in dispatcher._entries.values()


@pytest.mark.parametrize("name", ["cuGraphExecUpdate", "cuGraphLaunch"])
def test_a_graph_whose_call_failed_halfway_is_not_used_again(
    artifact, machine, operation, draw, monkeypatch, name
):
    dispatcher, case = dispatcher_of(artifact, machine, operation, audit_every=2), draw()
    dispatcher(case.tensors, case.scale)
    with monkeypatch.context() as patch:
        patch.setattr(machine.driver, name, lambda *_: (2, None)[: 1 + (name[7] == "E")])
        with pytest.raises(RuntimeError, match="CUDA driver: 2"):
            dispatcher(case.tensors, case.scale)
    assert len(dispatcher._entries) == 0
    dispatcher(case.tensors, case.scale)
    assert case.wrong() == 0


# Counting


def test_keys_that_push_each_other_out_are_audited_all_the_same(artifact, machine, operation, draw):
    dispatcher = dispatcher_of(artifact, machine, operation, entries=1, audit_every=2)
    update, audited = machine.driver.cuGraphExecUpdate, []
    machine.driver.cuGraphExecUpdate = lambda *given: audited.append(tokens) or update(*given)
    for tokens in (1, 2, 1, 2, 1, 2, 1, 2):
        case = draw(tokens=tokens)
        dispatcher(case.tensors, case.scale)
    assert audited == [1, 2, 1, 2]


def test_counters_are_bounded_and_no_count_is_lost_where_there_are_too_many(artifact):
    cache, counted = artifact.cache.Cache(most=2, counters=3), 0
    for number in range(1000):
        key = number % 10
        if key not in cache:
            cache.add(key, SimpleNamespace(calls=itertools.count(1), used=0))
        counted += next(cache[key].calls) % 5 == 0
        assert len(cache._counters) <= 3 + 2
    assert 1000 / 5 - 5 <= counted <= 1000 / 5


def test_two_calls_that_find_the_same_graph_stale_drop_no_other(artifact):
    cache = artifact.cache.Cache(most=2)
    first, second = (SimpleNamespace(calls=itertools.count(1), used=0) for _ in range(2))
    for entry in (first, second):
        cache.add("key", entry)
        cache.drop("key", first)
    assert cache == {"key": second}


# Threads, and what is called from within


def test_a_hit_does_not_wait_while_a_graph_is_made_for_another_key(
    artifact, machine, operation, draw
):
    dispatcher, case, other = dispatcher_of(artifact, machine, operation), draw(), draw(tokens=4)
    dispatcher(case.tensors, case.scale)
    scratch, inside, done = operation.scratch, threading.Event(), threading.Event()

    def slow(tensors):
        inside.set()
        assert done.wait(10)
        return scratch(tensors)

    operation.scratch = slow
    thread = threading.Thread(target=dispatcher, args=(other.tensors, other.scale))
    thread.start()
    assert inside.wait(10)
    again = draw(2)
    dispatcher(again.tensors, again.scale)
    assert again.wrong() == 0
    assert thread.is_alive()
    done.set()
    thread.join()
    assert other.wrong() == 0


def test_an_operation_that_calls_its_own_dispatcher_for_another_key_waits_for_nothing(
    artifact, machine, operation, draw
):
    dispatcher, case, other = dispatcher_of(artifact, machine, operation), draw(), draw(tokens=4)
    scratch = operation.scratch

    def nested(tensors):
        if len(tensors[0]) == 2:
            dispatcher(other.tensors, other.scale)
        return scratch(tensors)

    operation.scratch = nested
    words = {"args": (case.tensors, case.scale), "daemon": True}
    thread = threading.Thread(target=dispatcher, **words)
    thread.start()
    thread.join(10)
    assert (thread.is_alive(), case.wrong(), other.wrong()) == (False, 0, 0)


def test_two_calls_that_miss_the_same_key_make_one_graph(artifact, machine, operation, draw):
    dispatcher, cases = dispatcher_of(artifact, machine, operation), [draw(1), draw(2)]
    create, made = machine.driver.cuGraphCreate, []
    machine.driver.cuGraphCreate = lambda flags: made.append(flags) or create(flags)
    with dispatcher._making:
        threads = [
            threading.Thread(target=dispatcher, args=(case.tensors, case.scale)) for case in cases
        ]
        for each in threads:
            each.start()
        threads[0].join(0.1)
    for each in threads:
        each.join()
    assert (len(made), [case.wrong() for case in cases]) == (1, [0, 0])


@pytest.mark.parametrize("every", [1, 2])
def test_a_launcher_that_calls_its_own_dispatcher_is_told_so_and_waits_for_nothing(
    artifact, machine, operation, draw, every
):
    def launcher(tensors, scalars):
        dispatcher(tensors, *scalars)

    case = draw()
    dispatcher = dispatcher_of(artifact, machine, operation, shadow_every=every, launcher=launcher)
    for _ in range(every - 1):
        dispatcher(case.tensors, case.scale)
    with pytest.warns(RuntimeWarning, match="calls the dispatcher that it is to check"):
        dispatcher(case.tensors, case.scale)
    assert case.wrong() == 0


def test_a_launcher_that_raises_does_not_cost_the_call(artifact, machine, operation, draw):
    def launcher(*_):
        raise torch.OutOfMemoryError

    case = draw()
    dispatcher = dispatcher_of(artifact, machine, operation, shadow_every=1, launcher=launcher)
    with pytest.warns(RuntimeWarning, match="a call has no shadow: OutOfMemoryError"):
        dispatcher(case.tensors, case.scale)
    assert case.wrong() == 0
    assert not dispatcher._shadowing


@pytest.fixture
def made_current(artifact, monkeypatch):
    """Tensors' GPU 0 is torch's current one; which were made current."""
    found = []
    monkeypatch.delattr(artifact.streams._here, "device", raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(artifact.streams, "make_current", found.append)
    return found


def test_the_context_is_made_current_once_in_each_thread(artifact, made_current):
    def twice():
        for _ in range(2):
            artifact.streams.check_current(torch.device("cuda", 0))

    twice()
    assert made_current == [0]
    thread = threading.Thread(target=twice)
    thread.start()
    thread.join()
    assert made_current == [0, 0]


def test_the_context_is_made_current_again_for_another_gpu(artifact, made_current, monkeypatch):
    for device in (0, 1, 0):
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: device)  # noqa: B023 - used at once
        artifact.streams.check_current(torch.device("cuda", device))
    assert made_current == [0, 1, 0]


@pytest.mark.parametrize("cache", [True, False])
def test_a_call_inside_a_capture_is_refused(
    artifact, machine, operation, made_current, monkeypatch, cache
):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    dispatcher = dispatcher_of(artifact, machine, operation, cache=cache)
    tensors = [SimpleNamespace(device=torch.device("cuda", 0))] * 7
    with pytest.raises(RuntimeError, match="outside of the capture"):
        dispatcher(tensors, 0.1)
    assert (machine.driver.calls, made_current) == ({}, [])


# Given back


def balance(driver, monkeypatch):
    """Note what is made, and take out what is given back."""
    alive = []
    for kind, make in (("cuGraph", "cuGraphCreate"), ("cuGraphExec", "cuGraphInstantiate")):
        destroy = f"{kind}Destroy"
        made, gone = getattr(driver, make), getattr(driver, destroy)
        monkeypatch.setattr(
            driver, make, lambda *given, kind=kind, made=made: alive.append(kind) or made(*given)
        )
        monkeypatch.setattr(
            driver, destroy, lambda each, kind=kind, gone=gone: alive.remove(kind) or gone(each)
        )
    return alive


def test_a_dispatcher_that_is_dropped_gives_its_graphs_back(
    artifact, machine, operation, draw, monkeypatch
):
    alive, case = balance(machine.driver, monkeypatch), draw()
    dispatcher = dispatcher_of(artifact, machine, operation)
    dispatcher(case.tensors, case.scale)
    assert sorted(alive) == ["cuGraph", "cuGraphExec"]
    del dispatcher
    assert alive == []


@pytest.mark.parametrize("name", ["cuGraphInstantiate", "cuGraphAddKernelNode"])
def test_a_graph_that_cannot_be_finished_is_given_back(
    artifact, machine, operation, draw, monkeypatch, name
):
    alive, case = balance(machine.driver, monkeypatch), draw()
    dispatcher = dispatcher_of(artifact, machine, operation)
    with monkeypatch.context() as patch:
        patch.setattr(machine.driver, name, lambda *_: (2, None))
        with pytest.raises(RuntimeError, match="CUDA driver: 2") as held:  # all frames, too
            dispatcher(case.tensors, case.scale)
    assert held.tb is not None
    assert (alive, len(dispatcher._entries)) == ([], 0)
    dispatcher(case.tensors, case.scale)
    assert case.wrong() == 0


def test_a_graph_that_cannot_be_given_back_is_a_warning_and_fails_no_other_call(
    artifact, machine, operation, draw, monkeypatch
):
    dispatcher, case, other = (
        dispatcher_of(artifact, machine, operation, entries=1), draw(), draw(tokens=4)
    )  # fmt: skip
    dispatcher(case.tensors, case.scale)
    monkeypatch.setattr(machine.driver, "cuGraphExecDestroy", lambda _: (700,))
    with pytest.warns(RuntimeWarning, match="cuGraphExecDestroy: 700"):
        dispatcher(other.tensors, other.scale)
    assert other.wrong() == 0
    monkeypatch.undo()


@pytest.mark.parametrize("cache", [True, False])
def test_a_call_after_close_is_refused(artifact, machine, operation, draw, cache):
    dispatcher, case = dispatcher_of(artifact, machine, operation), draw()
    dispatcher(case.tensors, case.scale)
    dispatcher.close()
    dispatcher.cache, before = cache, dict(machine.driver.calls)
    with pytest.raises(RuntimeError, match="closed: make another one"):
        dispatcher(case.tensors, case.scale)
    assert machine.driver.calls == before
    dispatcher.close()


# Bad input: an error that says what to do, and nothing is started


def misaligned(tensor):
    """The same numbers, two bytes further on."""
    moved = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:]
    return moved.copy_(tensor.flatten()).view(tensor.shape)


BAD = {
    "no token": (0, lambda tensor: tensor[:0], "no token"),
    "dtype": (1, lambda tensor: tensor.float(), "q_pe is torch.float32"),
    "strides": (0, lambda tensor: tensor.mT.contiguous().mT, "q_nope has strides"),
    "heads": (0, lambda tensor: tensor[:, :8], r"q_nope has shape \[2, 8, 512\]"),
    "page size": (2, lambda tensor: tensor[:, :32], "ckv_cache has shape"),
    "width": (4, lambda tensor: tensor[:, :40].contiguous(), "do not divide a list of 40"),
    "device": (1, lambda tensor: tensor.to("meta"), "q_pe"),
    "address": (0, misaligned, "q_nope starts at an address"),
    "output": (5, lambda tensor: tensor.float(), "output is torch.float32"),
    "lse": (6, lambda tensor: tensor[:1], "lse has shape"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("cached", [True, False])
def test_what_the_kernels_cannot_take_is_refused_before_anything_is_started(
    artifact, machine, operation, draw, kind, cached
):
    """Also where a graph for good tensors is at hand."""
    dispatcher, case = dispatcher_of(artifact, machine, operation), draw()
    dispatcher(case.tensors, case.scale)
    dispatcher.cache = cached
    before = dict(machine.driver.calls)
    place, spoil, message = BAD[kind]
    tensors = list(case.tensors)
    tensors[place] = spoil(tensors[place])
    with pytest.raises(ValueError, match=message):
        dispatcher(tensors, case.scale)
    assert machine.driver.calls == before


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf"), 1e39, -(2.0**127)])
def test_a_float_that_a_miss_refuses_is_refused_on_a_hit(
    artifact, machine, operation, draw, cached, scale
):
    dispatcher, case = dispatcher_of(artifact, machine, operation), draw()
    dispatcher(case.tensors, case.scale)
    dispatcher.cache, before = cached, dict(machine.driver.calls)
    with pytest.raises(ValueError, match=r"sm_scale is .*: pass a finite int or float below"):
        dispatcher(case.tensors, scale)
    assert machine.driver.calls == before


class Whole(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize("scalar", [True, Whole.ONE])
def test_what_only_equals_a_whole_number_has_no_part_in_its_graph(
    artifact, machine, operation, draw, scalar
):
    dispatcher, case = dispatcher_of(artifact, machine, operation), draw(scale=1)
    dispatcher(case.tensors, 1)
    with pytest.raises(ValueError, match="pass an int or a float"):
        dispatcher(case.tensors, scalar)


@pytest.mark.parametrize("name", ["audit_every", "shadow_every", "entries"])
@pytest.mark.parametrize("value", [-1, 1.5, None])
def test_a_number_of_calls_or_graphs_that_is_none_is_refused(
    artifact, machine, operation, name, value
):
    with pytest.raises(ValueError, match=f"{name}={value}: "):
        dispatcher_of(artifact, machine, operation, **{name: value})


@pytest.mark.parametrize("outputs", [0, 3])
def test_an_operation_without_outputs_or_with_too_many_is_refused(artifact, machine, outputs):
    operation = Copy(artifact, machine.driver)
    operation.outputs = outputs
    with pytest.raises(ValueError, match=f"{outputs} of 2 tensors are outputs"):
        dispatcher_of(artifact, machine, operation)


def test_a_split_that_needs_no_reduction_is_refused(artifact):
    with pytest.raises(ValueError, match="splits=1"):
        artifact.kernel.SplitK(artifact.paths.Plan(splits=1))


def test_kernels_are_not_loaded_for_tensors_on_the_cpu(artifact):
    with pytest.raises(ValueError, match="make their GPU"):
        artifact.kernel.check_device(torch.device("cpu"))


# Finding nodes, and the driver's own description


def captured(artifact, machine, operation, case, times=1):
    """Capture the direct launch, `times` over."""
    steps = operation.steps(case.tensors)
    launch = artifact.graph.Launch(machine.driver, steps)
    machine.driver.cuStreamBeginCapture(0, 0)
    for _ in range(times):
        launch.start(0)
    return steps, machine.driver.cuStreamEndCapture(0)[1]


def test_the_nodes_of_a_captured_graph_are_found_in_whatever_order(
    artifact, machine, operation, draw
):
    steps, graph = captured(artifact, machine, operation, draw())
    nodes = artifact.graph.find_nodes(machine.driver, graph, steps)
    assert [node.func for node in nodes] == [step.function for step in steps]


def test_a_captured_graph_with_a_kernel_twice_is_refused(artifact, machine, operation, draw):
    steps, graph = captured(artifact, machine, operation, draw(), times=2)
    with pytest.raises(ValueError, match="capture the launch alone"):
        artifact.graph.find_nodes(machine.driver, graph, steps)


def test_the_drivers_own_description_points_to_the_buffer_that_is_written(
    artifact, operation, draw
):
    driver = pytest.importorskip("cuda.bindings.driver")
    (step, _) = operation.steps(draw().tensors)
    graph = object.__new__(artifact.graph.PatchedGraph)
    artifact.graph.Launch.__init__(graph, driver, [step])
    node = graph._described(0)
    assert int(node.func) == step.function
    assert (node.gridDimX, node.gridDimY, node.gridDimZ) == step.grid
    assert (node.blockDimX, node.sharedMemBytes) == (step.block, step.shared)
    assert node.kernelParams == graph.arguments[0].pointer
