"""CUDA C++ compiled at run time: what it becomes, what is kept, and what a mistake says."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from shared import cuda_module
from shared.cuda_module import Arguments, check, compile_source

pytest.importorskip("cuda.bindings")
ARTIFACTS = Path(__file__).parents[1] / "artifacts"
KERNEL = """
#include "scale.cuh"
extern "C" __global__ void scaled(float* values, unsigned count) {
    const unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count) values[place] *= scale() * FACTOR;
}
"""
HEADER = "__device__ inline float scale() { return 3.0f; }\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache folder of this test's own, and nothing remembered from others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compile_source.cache_clear()
    yield tmp_path / "cache"
    compile_source.cache_clear()


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "scale.cuh").write_text(HEADER)
    path = folder / "scaled.cu"
    path.write_text(KERNEL)
    return path


@pytest.fixture
def compilations(monkeypatch):
    """The targets that the compiler was asked for."""
    heard = []
    compiler = cuda_module._compile

    def listen(source, options, target):
        heard.append(target)
        return compiler(source, options, target)

    monkeypatch.setattr(cuda_module, "_compile", listen)
    return heard


def build(source, **options):
    """Compile as a fresh process does: without what this one remembers."""
    compile_source.cache_clear()
    return compile_source(source, **{"arch": "sm_90", "target": "ptx", "FACTOR": 2, **options})


def test_a_source_becomes_ptx_of_its_architecture_and_entry(source):
    ptx = build(source).decode().rstrip("\0")
    assert ".target sm_90" in ptx
    assert ".visible .entry scaled(" in ptx


def test_a_source_becomes_a_cubin(source):
    assert build(source, arch="sm_90a", target="cubin")[:4] == b"\x7fELF"


def test_a_macro_reaches_the_source(source):
    """Six is 0f40C00000, nine is 0f41100000."""
    assert b"0f40C00000" in build(source, FACTOR=2)
    assert b"0f41100000" in build(source, FACTOR=3)


def test_what_was_compiled_once_is_read_from_the_cache(source, compilations, home):
    first = build(source)
    assert build(source) == first
    assert compilations == ["ptx"]
    (kept,) = home.rglob("*.ptx")
    assert kept.read_bytes() == first


def test_within_a_process_the_disk_is_not_asked_again(source, compilations, home):
    first = build(source)
    for kept in home.rglob("*.ptx"):
        kept.unlink()
    again = compile_source(source, arch="sm_90", target="ptx", FACTOR=2)
    assert again is first
    assert compilations == ["ptx"]


def test_another_process_does_not_compile(source, home):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from shared import cuda_module\n"
        "cuda_module._compile = lambda *_: sys.exit('compiled again')\n"
        "found = cuda_module.compile_source(Path(sys.argv[2]), arch='sm_90', target='ptx', FACTOR=2)\n"
        "print(found.decode())"
    )
    first = build(source).decode()
    words = [sys.executable, "-c", code, str(ARTIFACTS), str(source)]
    own = {**os.environ, "XDG_CACHE_HOME": str(home)}
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == first.strip()


CHANGES = {
    "the source": (lambda path: path.write_text(KERNEL.replace("*=", "+=")), {}),
    "a header beside it": (
        lambda path: (path.parent / "scale.cuh").write_text(HEADER.replace("3.0f", "5.0f")),
        {},
    ),
    "a macro": (lambda _: None, {"FACTOR": 3}),
    "the architecture": (lambda _: None, {"arch": "sm_80"}),
    "the target": (lambda _: None, {"target": "cubin"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_compiled_anew(source, compilations, what):
    change, options = CHANGES[what]
    first = build(source)
    change(source)
    assert build(source, **options) != first
    assert len(compilations) == 2


def test_an_equal_source_elsewhere_shares_the_cache(source, compilations, tmp_path):
    """A checkout may move; only what is compiled counts."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    for path in source.parent.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    assert build(other / source.name) == build(source)
    assert compilations == ["ptx"]


def test_a_source_that_does_not_compile_gives_the_compilers_log_and_keeps_nothing(source, home):
    source.write_text(KERNEL.replace("count", "number", 1))
    with pytest.raises(RuntimeError, match=r"scaled\.cu") as caught:
        build(source)
    message = str(caught.value)
    assert "NVRTC_ERROR_COMPILATION" in message
    assert re.search(r'scaled\.cu\(5\): error: identifier "count" is undefined', message)
    assert not list(home.rglob("*.ptx"))


@pytest.mark.parametrize("what", ["a file", "no folder"])
def test_a_cache_that_cannot_be_written_only_costs_time(source, compilations, home, what):
    if what == "a file":
        home.write_text("in the way")
    else:
        home.mkdir()
        home.joinpath("warplog").write_text("in the way")
    assert build(source) == build(source)
    assert compilations == ["ptx", "ptx"]


def test_nothing_half_written_is_left_in_the_cache(source, home):
    build(source)
    assert [path.suffix for path in home.rglob("*") if path.is_file()] == [".ptx"]


def test_a_failed_call_of_the_driver_is_an_error_and_a_good_one_its_value():
    assert check((0, "value")) == "value"
    assert check((0,)) is None
    with pytest.raises(RuntimeError, match="CUDA driver: 700"):
        check((700,))


def test_arguments_are_packed_as_the_driver_wants_them():
    tensor = torch.zeros(3)
    packed = Arguments(tensor, None, 7, 0.5)
    addresses = ctypes.cast(packed.pointer, ctypes.POINTER(ctypes.c_void_p * 4)).contents
    assert ctypes.c_void_p.from_address(addresses[0]).value == tensor.data_ptr()
    assert ctypes.c_void_p.from_address(addresses[1]).value is None
    assert ctypes.c_uint32.from_address(addresses[2]).value == 7
    assert ctypes.c_float.from_address(addresses[3]).value == 0.5


class Driver:
    """Stands in for the driver: what was asked of it, and the context of the thread that asks."""

    def __init__(self):
        self.context, self.calls = 0, []
        self.CUfunction_attribute = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared"
        )

    def cuDeviceGet(self, number):  # noqa: N802 - the driver's name, as those below
        return 0, number

    def cuDevicePrimaryCtxRetain(self, device):  # noqa: N802
        return 0, 100 + device

    def cuCtxGetCurrent(self):  # noqa: N802
        return 0, self.context

    def cuCtxSetCurrent(self, context):  # noqa: N802
        self.context = context
        self.calls.append(("context", context))
        return (0,)

    def cuModuleLoadData(self, code):  # noqa: N802
        self.calls.append(("load", self.context))
        return 0, code

    def cuModuleGetFunction(self, _, name):  # noqa: N802
        return 0, (self.context, name)

    def cuFuncSetAttribute(self, function, attribute, value):  # noqa: N802
        self.calls.append((function, attribute, value))
        return (0,)

    def cuLaunchKernel(self, *words):  # noqa: N802
        self.calls.append(("launch", words[0], self.context))
        return (0,)


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, of which `current` is torch's, and a driver that loads and starts nothing."""
    import cuda.bindings

    found = SimpleNamespace(driver=Driver(), current=0)
    monkeypatch.setattr(cuda.bindings, "driver", found.driver, raising=False)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: found.current)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    stream = SimpleNamespace(cuda_stream=0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(cuda_module, "compile_source", lambda *_, **__: b"code")
    for each in (cuda_module._function, cuda_module._context):
        each.cache_clear()
    yield found
    for each in (cuda_module._function, cuda_module._context):
        each.cache_clear()


def test_a_kernel_is_loaded_once_for_each_gpu(gpus):
    """A function of one GPU's context cannot be started on another."""
    found = []
    for gpus.current in (0, 1, 0):
        found.append(cuda_module.function(Path("a.cu"), "a", 65536))
    assert found == [(100, b"a"), (101, b"a"), (100, b"a")]
    assert [call for call in gpus.driver.calls if call[0] == "load"] == [
        ("load", 100),
        ("load", 101),
    ]
    assert ((101, b"a"), "shared", 65536) in gpus.driver.calls


class Elsewhere(torch.Tensor):
    """A tensor that says that it is on the second GPU."""

    def get_device(self):
        return 1


def test_a_launch_in_a_thread_without_a_context_makes_torchs_current(gpus):
    """Once: a context that is current already is left alone."""
    arguments = Arguments(torch.zeros(1).as_subclass(Elsewhere), 7)
    gpus.current = 1
    for _ in range(2):
        cuda_module.launch("kernel", (1, 1), 32, 0, arguments)
    launched = ("launch", "kernel", 101)
    assert gpus.driver.calls == [("context", 101), launched, launched]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(1), "a tensor is on the CPU: move it to cuda:0"),
        (
            torch.zeros(1).as_subclass(Elsewhere),
            r"on cuda:1 and torch's current GPU is cuda:0: .* inside torch\.cuda\.device\(1\)",
        ),
    ],
)
def test_a_tensor_that_is_not_on_torchs_gpu_is_refused_before_a_launch(gpus, tensor, message):
    with pytest.raises(ValueError, match=message):
        cuda_module.launch("kernel", (1, 1), 32, 0, Arguments(tensor))
    assert gpus.driver.calls == []
