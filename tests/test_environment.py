"""Provenance: what is named, and what never is. NVML and the GPU are stood in for."""

from types import SimpleNamespace

import pynvml
import pytest
import torch

from warplog import environment

GPU = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU called H200 with a 6144-bit bus at 3201 MHz, one process, hot."""
    facts = SimpleNamespace(
        name="NVIDIA H200", major=9, minor=0, multi_processor_count=132,
        total_memory=150 * 10**9, L2_cache_size=60 * 2**20, uuid="abc",
    )  # fmt: skip
    state = SimpleNamespace(
        reasons=pynvml.nvmlClocksThrottleReasonHwSlowdown | pynvml.nvmlClocksEventReasonSwPowerCap,
        users=[1],
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: facts)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: facts.name)
    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetMemoryBusWidth": lambda _: 6144,
        "nvmlDeviceGetMaxClockInfo": lambda *_: 3201,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: state.reasons,
        "nvmlDeviceGetComputeRunningProcesses": lambda _: state.users,
        "nvmlDeviceGetPowerManagementLimit": lambda _: 700_000,
        "nvmlDeviceGetEccMode": lambda _: [1, 1],
        "nvmlDeviceGetClockInfo": lambda *_: 1980,
        "nvmlDeviceGetTemperature": lambda *_: 41,
        "nvmlDeviceGetPowerUsage": lambda _: 123_400,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    return state


@pytest.mark.usefixtures("gpu")
def test_a_gpu_is_filed_under_its_name_in_small_letters():
    assert environment.slug(GPU) == "nvidia-h200"


@pytest.mark.usefixtures("gpu")
def test_the_pins_allow_bus_width_times_twice_the_clock():
    assert environment.pin_bandwidth(GPU) == pytest.approx(6144 / 8 * 3201e6 * 2)
    assert environment.gpu(GPU)["pin_bandwidth"] == pytest.approx(4.917e12, rel=1e-3)


def test_a_slowed_gpu_and_company_are_disturbances_and_a_power_cap_is_not(gpu):
    gpu.users = [1, 2, 3]
    reading = environment.clocks(GPU)
    assert reading["slowed"] == ["power cap", "hardware slowdown"]
    assert environment.disturbances([reading, reading]) == [
        "hardware slowdown",
        "2 other process(es) on the GPU",
    ]
    gpu.users, gpu.reasons = [1], pynvml.nvmlClocksEventReasonSwPowerCap
    assert environment.disturbances([environment.clocks(GPU)]) == []


def test_clocks_that_cannot_be_read_say_so(gpu, monkeypatch):
    def broken(_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    del gpu
    for name in ("nvmlDeviceGetTemperature", "nvmlDeviceGetMemoryBusWidth"):
        monkeypatch.setattr(pynvml, name, lambda *_: broken(None))
    assert environment.clocks(GPU) == {"unreadable": "NVMLError_Unknown"}
    assert environment.pin_bandwidth(GPU) is None
    assert "pin_bandwidth" not in environment.gpu(GPU)


def test_without_a_gpu_its_facts_are_absent_and_not_zero():
    cpu = torch.device("cpu")
    assert environment.slug(cpu) == "cpu"
    assert environment.gpu(cpu) is None
    assert environment.clocks(cpu) == {}
    assert environment.pin_bandwidth(cpu) is None


def test_only_listed_variables_enter_and_paths_do_not(monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:/home/me/lib.so")
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    found = environment.variables()
    assert found["CUDA_LAUNCH_BLOCKING"] == "1"
    assert found["PYTORCH_CUDA_ALLOC_CONF"] == "(set, not shown)"
    assert "SECRET_TOKEN" not in found


def test_an_artifacts_requirements_are_versions_too(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("# why\nmsgspec>=0.1  # json\n-r other.txt\nno-such-package\n", "utf-8")
    (tmp_path / "requirements-gpu.txt").write_text("rich\n", "utf-8")
    found = environment.packages(tmp_path)
    assert {"torch", "triton", "numpy", "msgspec", "rich"} <= found.keys()
    assert "no-such-package" not in found


def test_a_driver_that_is_not_there_is_none(monkeypatch):
    def missing():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    assert environment.driver() is None


@pytest.mark.usefixtures("gpu")
def test_the_cards_limits_are_named():
    found = environment.gpu(GPU)
    assert (found["watts_limit"], found["ecc"]) == (700, "on")


def test_what_the_clocks_did_while_busy_is_a_range():
    first = {"sm_mhz": 1980, "watts": 500.0, "slowed": ["power cap"], "others": 0}
    second = {"sm_mhz": 1700, "watts": 690.0, "slowed": [], "others": 1}
    found = environment.busiest([first, second])
    assert (found["sm_mhz_least"], found["sm_mhz_most"]) == (1700, 1980)
    assert (found["watts_most"], found["slowed"], found["others"]) == (690.0, ["power cap"], 1)
    assert environment.disturbances([found]) == ["1 other process(es) on the GPU"]
    assert environment.busiest([]) == {}
