"""Watches a running training from all ranks: the phases' time line, the GPUs, and the heartbeat."""

import functools
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pivotrl.telemetry import gpu
from pivotrl.telemetry.config import TelemetryConfig
from pivotrl.telemetry.heartbeat import HEARTBEAT_FILE, Heartbeat
from pivotrl.telemetry.metrics import PhaseTimer
from pivotrl.telemetry.trace import TRACE_FILE, Trace, events_of

if TYPE_CHECKING:
    from pivotrl.policy.parallel import World


class Observer:
    """Every rank reads its clock and its GPU; rank 0 writes what all of them saw."""

    def __init__(self, run: Path, config: TelemetryConfig, world: "World") -> None:
        """`run` is the run's folder."""
        from pivotrl.policy.device import gpu_uuid

        first = world.rank == 0
        self._world = world
        self._trace = Trace(run / TRACE_FILE) if first and config.trace else None
        self._heartbeat = Heartbeat(run / HEARTBEAT_FILE, config.heartbeat_seconds) if first else None
        self._ended = "finished"
        self._gpu = gpu.GpuMonitor(gpu_uuid(), config.gpu_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._gpu.close()
        if self._heartbeat is not None:
            self._heartbeat.close(self._ended if kind is None else f"ended by {kind.__name__}")

    def begin(self, step: int) -> PhaseTimer:
        """The clock of a step that begins."""
        if self._heartbeat is None:
            return PhaseTimer(step)
        return PhaseTimer(step, functools.partial(self._heartbeat.enter, step))

    def stops(self) -> None:
        """The run was asked to stop before its last step: its heartbeat is not to end as that of a finished one."""
        self._ended = "stopped"

    def end(self, timer: PhaseTimer) -> dict[str, float]:
        """Write the step's phases, and take the GPUs' figures (collective).

        Returns:
            `gpu.<figure>` over the ranks, on machines with GPUs; the same on every rank.
        """
        import torch.distributed as dist

        mine = (socket.gethostname(), timer.spans, self._gpu.take())
        everyone: list[Any] = [mine]
        if self._world.world_size > 1:
            everyone = [None] * self._world.world_size
            dist.all_gather_object(everyone, mine, group=self._world.object_group)
        if self._trace is not None:
            self._trace.append(events_of(timer.step, [(host, spans) for host, spans, _ in everyone]))
        return gpu.summarise([readings for *_, readings in everyone])
