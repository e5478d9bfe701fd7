"""What a GPU does, by NVML: memory, utilisation, power, temperature, and why it is slower than it could be."""

import importlib.util
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

THROTTLES = {
    "SwPowerCap": "power_cap",
    "HwSlowdown": "slowdown",
    "SwThermalSlowdown": "thermal",
    "HwThermalSlowdown": "hot",
    "HwPowerBrakeSlowdown": "power_brake",
}
"""NVML's reasons of a clock below what the work could have -> their names here. Idleness and set clocks are none."""


@dataclass(slots=True)
class Readings:
    """What was read of one GPU since the last time it was asked for, by figure."""

    values: dict[str, list[float]] = field(default_factory=dict)
    throttles: set[str] = field(default_factory=set)


class GpuMonitor:
    """Reads one GPU now and then, on a thread. Reads nothing where there is no GPU, no NVML, or no such figure."""

    def __init__(self, uuid: str | None, seconds: float) -> None:
        """
        Args:
            uuid: `policy.device.gpu_uuid()`; None reads nothing.
            seconds: between two readings.
        """
        self._seconds, self._nvml = seconds, None
        self._lock, self._end = threading.Lock(), threading.Event()
        self._readings = Readings()
        self._thread: threading.Thread | None = None
        if uuid is None or importlib.util.find_spec("pynvml") is None:
            return
        import pynvml

        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError:  # no driver, or one that hides its GPUs
            return
        self._nvml = pynvml
        self._figures = _figures(pynvml, self._handle)
        self._thread = threading.Thread(target=self._watch, name="gpu-monitor", daemon=True)
        self._thread.start()

    def take(self) -> Readings | None:
        """What was read since the last call, a reading of now included; None where there is nothing to read."""
        if self._nvml is None:
            return None
        self._read()
        with self._lock:
            taken, self._readings = self._readings, Readings()
        return taken

    def close(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._nvml.nvmlShutdown()
            self._thread = self._nvml = None

    def _watch(self) -> None:
        while not self._end.wait(self._seconds):
            self._read()

    def _read(self) -> None:
        found: dict[str, Any] = {}
        for name, ask in self._figures.items():
            try:
                found[name] = ask()
            except self._nvml.NVMLError:  # this GPU has no such figure
                continue
        mask = found.pop("throttles", 0)
        with self._lock:
            for name, value in found.items():
                self._readings.values.setdefault(name, []).append(value)
            for reason, name in THROTTLES.items():
                if mask & getattr(self._nvml, f"nvmlClocksEventReason{reason}"):
                    self._readings.throttles.add(name)


def summarise(ranks: Sequence[Readings | None]) -> dict[str, float]:
    """Metrics of all GPUs over a step; nothing where none was read.

    The fullest memory in GiB, the mean and the least utilisation in [0, 1] (each GPU's mean over the step), the mean
    power in watts, the highest temperature in degrees Celsius, and how many GPUs were throttled, in all and by reason.
    """
    read = [one for one in ranks if one is not None]
    if not read:
        return {}
    means = {
        name: [sum(one.values[name]) / len(one.values[name]) for one in read if one.values.get(name)]
        for name in ("utilisation", "power")
    }
    peaks = {
        name: [max(one.values[name]) for one in read if one.values.get(name)] for name in ("memory", "temperature")
    }
    found = {"gpu.throttled": float(sum(bool(one.throttles) for one in read))}
    if peaks["memory"]:
        found["gpu.memory_gib"] = max(peaks["memory"])
    if means["utilisation"]:
        found["gpu.utilisation"] = sum(means["utilisation"]) / len(means["utilisation"])
        found["gpu.utilisation_least"] = min(means["utilisation"])
    if means["power"]:
        found["gpu.power_watts"] = sum(means["power"]) / len(means["power"])
    if peaks["temperature"]:
        found["gpu.temperature"] = max(peaks["temperature"])
    for name in sorted(set().union(*(one.throttles for one in read))):
        found[f"gpu.throttle_{name}"] = float(sum(name in one.throttles for one in read))
    return found


def _figures(nvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    """Figure -> how it is asked for, in the units of `summarise`."""
    return {
        "memory": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / 2**30,
        "utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "throttles": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
    }
