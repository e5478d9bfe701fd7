"""What of an engine is in the device's memory: everything, nothing, or its weights alone. By vLLM's sleep mode.

With `rollout.sleep`, vLLM 0.32 takes weights and cache from an allocator of its own (`CuMemAllocator`), which gives
their physical memory back and keeps their addresses: parameters, views of them and captured graphs stay valid, and find
other memory behind the same pointers. Asleep at level 2 the weights are gone and nothing is copied to the host but the
buffers (rotary caches, maps of experts), which vLLM brings back with the weights. What the memory then holds of the
weights and of the cache is whatever was there before.

vLLM's sleep is a method of each rank's own executor: with `external_launcher` every rank calls it, in any order.
"""

from typing import Any, Literal


class Residence:
    """Of one rank's engine."""

    def __init__(self, llm: Any, runner: Any, sleeps: bool) -> None:
        """
        Args:
            llm: vLLM's `LLM`, built with `enable_sleep_mode` where `sleeps`.
            runner: its worker's model runner.
            sleeps: unset, every method does nothing.
        """
        self._llm, self._runner, self._sleeps = llm, runner, sleeps
        self.held: Literal["all", "weights", "nothing"] = "all"

    def give_up(self) -> bool:
        """Give weights and cache back. Says whether they went: not where the engine does not sleep, or already does."""
        if not self._sleeps or self.held == "nothing":
            return False
        assert self.held == "all", "the engine falls asleep before it was awake"
        self._llm.sleep(level=2)
        self.held = "nothing"
        return True

    def take_weights(self) -> None:
        """Memory for the weights, which a refit must fill."""
        if self.held == "nothing":
            self._llm.wake_up(tags=["weights"])
            self.held = "weights"

    def take_cache(self) -> None:
        """Memory for the cache, empty: zeros, for a kernel may multiply by 0 what lies behind a sequence's end, and a
        NaN there would stay one."""
        if self.held == "weights":
            self._llm.wake_up(tags=["kv_cache"])
            for cache in self._runner.kv_caches:
                cache.zero_()
            self.held = "all"
