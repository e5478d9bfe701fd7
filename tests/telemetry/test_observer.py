"""The time line, the heartbeat and the GPU monitor. NVML is made up: there is none here."""

import json
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pivotrl.run_loop import RunLoop
from pivotrl.telemetry import gpu
from pivotrl.telemetry.config import TelemetryConfig
from pivotrl.telemetry.heartbeat import Heartbeat
from pivotrl.telemetry.metrics import MetricsWriter, PhaseTimer, Span
from pivotrl.telemetry.observer import Observer
from pivotrl.telemetry.trace import Trace, events_of

ALONE = SimpleNamespace(rank=0, world_size=1)


def event(number: int) -> dict:
    return {"name": f"phase {number}", "ph": "X", "ts": number, "dur": 1, "pid": 0, "tid": 0}


def test_a_trace_is_whole_after_every_append_and_after_a_kill_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = Trace(path)
    assert json.loads(path.read_bytes()) == []
    for number in range(3):
        trace.append([event(2 * number), event(2 * number + 1)])
        assert json.loads(path.read_bytes()) == [event(n) for n in range(2 * number + 2)]
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        Trace(path).append([event(99)])
        found = json.loads(path.read_bytes())
        assert found[-1] == event(99) and found[:-1] == [event(n) for n in range(len(found) - 1)]
        assert len(found) - 1 >= whole[:size].count(b",\n"), "every whole line before the torn one is kept"
    path.write_bytes(whole)
    Trace(path)
    assert path.read_bytes() == whole


def test_a_step_shows_rank_0_and_who_was_slowest() -> None:
    ranks = [
        ("a", [Span("rollout", 10.0, 2.0), Span("verify", 12.0, 0.5)]),
        ("a", [Span("rollout", 10.0, 1.0), Span("verify", 11.0, 1.5)]),
        ("b", [Span("rollout", 10.0, 1.0), Span("verify", 11.0, 0.5)]),
    ]
    events = events_of(4, ranks)
    shown = [
        (one["pid"], one["name"], one["ts"], one["dur"], one["args"]["step"]) for one in events if one["ph"] == "X"
    ]
    assert shown == [
        (0, "rollout", 10_000_000, 2_000_000, 5),
        (0, "verify", 12_000_000, 500_000, 5),
        (1, "verify", 11_000_000, 1_500_000, 5),
    ]
    assert [one["args"]["name"] for one in events if one["ph"] == "M"] == ["rank 0 (a)", "rank 1 (a)"]


def test_a_heartbeat_tells_a_hang_from_a_death(tmp_path: Path) -> None:
    path = tmp_path / "run" / "heartbeat.json"
    beat = Heartbeat(path, 0.02)
    first = json.loads(path.read_text())
    assert first["phase"] == "start" and set(first) == {"time", "step", "phase", "since", "pid", "host"}
    beat.enter(6, "train")
    deadline = time.monotonic() + 20
    while (found := json.loads(path.read_text()))["phase"] != "train" or found["time"] < found["since"] + 0.1:
        assert time.monotonic() < deadline, "the file is written while the phase lasts"
        time.sleep(0.01)
    assert found["step"] == 7
    beat.close("finished")
    last = path.read_bytes()
    assert json.loads(last)["phase"] == "finished"
    time.sleep(0.1)
    assert path.read_bytes() == last and [file.name for file in path.parent.iterdir()] == ["heartbeat.json"]


def test_a_heartbeat_is_never_read_half_written(tmp_path: Path) -> None:
    beat = Heartbeat(tmp_path / "heartbeat.json", 0.0005)
    try:
        for step in range(300):
            beat.enter(step, "rollout" * (1 + step % 40))
            json.loads((tmp_path / "heartbeat.json").read_text())
    finally:
        beat.close("finished")


def test_an_observer_on_a_cpu_has_phases_and_no_gpu(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Observer(tmp_path, TelemetryConfig(), ALONE) as observer:
        for step in range(2):
            timer = observer.begin(step)
            with timer.phase("rollout"):
                pass
            with timer.phase("train"):
                pass
            assert observer.end(timer) == {}
        with observer.begin(2).phase("rollout"):
            raise RuntimeError
    found = json.loads((tmp_path / "trace.json").read_text())
    names = [(one["name"], one["args"]["step"]) for one in found if one["ph"] == "X"]
    assert names == [("rollout", 1), ("train", 1), ("rollout", 2), ("train", 2)], "up to the last whole step"
    assert json.loads((tmp_path / "heartbeat.json").read_text())["phase"] == "ended by RuntimeError"
    with Observer(tmp_path / "other", TelemetryConfig(trace=False), SimpleNamespace(rank=1, world_size=1)) as observer:
        observer.end(observer.begin(0))
    assert not (tmp_path / "other").exists(), "rank 0 writes"


def test_a_run_that_was_asked_to_stop_does_not_end_as_a_finished_one(tmp_path: Path) -> None:
    for asked_after, phase in ((2, "stopped"), (3, "finished")):
        loop = object.__new__(RunLoop)
        loop.start, loop._steps, loop._stopping = 0, 3, False
        with Observer(tmp_path, TelemetryConfig(), ALONE) as loop._observer:
            for step, _ in loop.steps():
                loop._stopping = step + 1 == asked_after
        assert json.loads((tmp_path / "heartbeat.json").read_text())["phase"] == phase


class NVMLError(Exception):
    pass


def made_up_nvml(**changes) -> ModuleType:
    """A pynvml with one GPU, whose power rises by 100 W from reading to reading."""
    nvml = ModuleType("pynvml")
    nvml.NVMLError, nvml.NVML_TEMPERATURE_GPU = NVMLError, 0
    nvml.readings = 0
    nvml.open = False

    def set_open(value: bool) -> None:
        nvml.open = value

    def power(handle: str) -> int:
        nvml.readings += 1
        return 200_000 + 100_000 * nvml.readings

    nvml.nvmlInit, nvml.nvmlShutdown = (lambda: set_open(True)), (lambda: set_open(False))
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: f"handle of {uuid}"
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(used=70 * 2**30)
    nvml.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=80)
    nvml.nvmlDeviceGetPowerUsage = power
    nvml.nvmlDeviceGetTemperature = lambda handle, sensor: 61
    nvml.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: 0x4 | 0x40 | 0x1  # and idle, which is none
    names = {"SwPowerCap": 0x4, "HwSlowdown": 0x8, "SwThermalSlowdown": 0x20, "HwThermalSlowdown": 0x40}
    for name, bit in (names | {"HwPowerBrakeSlowdown": 0x80}).items():
        setattr(nvml, f"nvmlClocksEventReason{name}", bit)
    for name, value in changes.items():
        setattr(nvml, name, value)
    return nvml


def refuses(*arguments: object) -> None:
    raise NVMLError("Not Supported")


@pytest.fixture
def nvml(monkeypatch) -> ModuleType:
    found = made_up_nvml()
    found.__spec__ = SimpleNamespace(name="pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def test_the_names_that_are_asked_of_nvml_are_the_installed_ones() -> None:
    import pynvml

    made_up = made_up_nvml()
    for name in vars(made_up):
        if name.startswith(("nvml", "NVML")):
            real = getattr(pynvml, name)
            assert isinstance(real, int) is isinstance(vars(made_up)[name], int), name
            assert not isinstance(real, int) or real == vars(made_up)[name], name


def test_a_step_has_the_means_and_the_peaks_of_its_gpu(nvml: ModuleType) -> None:
    monitor = gpu.GpuMonitor("GPU-1", seconds=0.005)
    deadline = time.monotonic() + 20
    while nvml.readings < 4:
        assert time.monotonic() < deadline, "the thread reads by itself"
        time.sleep(0.005)
    readings = monitor.take()
    again = monitor.take()
    monitor.close()
    assert not nvml.open and monitor.take() is None
    power = readings.values["power"]
    assert power == [300.0 + 100 * n for n in range(len(power))] and len(power) >= 4
    assert again.values["power"][0] == power[-1] + 100, "what was taken is not taken again"
    found = gpu.summarise([readings, None])
    assert found == {
        "gpu.memory_gib": 70.0,
        "gpu.utilisation": pytest.approx(0.8),
        "gpu.utilisation_least": pytest.approx(0.8),
        "gpu.power_watts": sum(power) / len(power),
        "gpu.temperature": 61,
        "gpu.throttled": 1.0,
        "gpu.throttle_hot": 1.0,
        "gpu.throttle_power_cap": 1.0,
    }


def test_many_gpus_are_one_row(nvml: ModuleType) -> None:
    busy = gpu.Readings({"memory": [10.0, 30.0], "utilisation": [1.0, 0.8], "power": [600.0], "temperature": [70]})
    idle = gpu.Readings({"memory": [40.0], "utilisation": [0.1], "power": [200.0], "temperature": [40]}, {"hot"})
    assert gpu.summarise([busy, idle, busy, busy]) == {
        "gpu.memory_gib": 40.0,
        "gpu.utilisation": pytest.approx((3 * 0.9 + 0.1) / 4),
        "gpu.utilisation_least": pytest.approx(0.1),
        "gpu.power_watts": 500.0,
        "gpu.temperature": 70,
        "gpu.throttled": 1.0,
        "gpu.throttle_hot": 1.0,
    }
    assert gpu.summarise([None, None]) == {}


def test_a_figure_that_a_gpu_lacks_is_left_out(nvml: ModuleType) -> None:
    nvml.nvmlDeviceGetPowerUsage = nvml.nvmlDeviceGetCurrentClocksEventReasons = refuses
    monitor = gpu.GpuMonitor("GPU-1", seconds=60)
    found = gpu.summarise([monitor.take()])
    monitor.close()
    assert set(found) == {
        "gpu.memory_gib",
        "gpu.utilisation",
        "gpu.utilisation_least",
        "gpu.temperature",
        "gpu.throttled",
    }
    assert found["gpu.throttled"] == 0


def test_without_a_gpu_a_driver_or_the_package_there_is_no_figure_and_no_word(nvml: ModuleType, monkeypatch, capfd):
    assert gpu.GpuMonitor(None, 60).take() is None and not nvml.open
    nvml.nvmlDeviceGetHandleByUUID = refuses
    assert gpu.GpuMonitor("GPU-1", 60).take() is None
    nvml.nvmlInit = refuses
    assert gpu.GpuMonitor("GPU-1", 60).take() is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert gpu.GpuMonitor("GPU-1", 60).take() is None
    assert capfd.readouterr() == ("", "")


def test_a_timer_keeps_the_order_of_its_phases() -> None:
    entered: list[str] = []
    timer = PhaseTimer(3, entered.append)
    for name in ("rollout", "train", "rollout"):
        with timer.phase(name):
            pass
    assert entered == [span.name for span in timer.spans] == ["rollout", "train", "rollout"]
    assert all(a.began <= b.began for a, b in zip(timer.spans, timer.spans[1:]))
    assert set(timer.seconds) == {"rollout", "train"}


def test_metrics_of_gpus_reach_the_file(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, TelemetryConfig(tensorboard=False)) as writer:
        writer.write(0, {"gpu.memory_gib": 71.5})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 0, "gpu.memory_gib": 71.5}
