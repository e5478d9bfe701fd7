"""A vLLM engine inside every training process, and generation over all of them.

Ranks [k * tensor, (k + 1) * tensor) hold engine k, tensor-parallel. All ranks of an engine run the same scheduler on
the same requests (vLLM's `external_launcher`), so each of them has the results without a message.
"""

import contextlib
import os
import uuid
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy import device
from pivotrl.rollout import environment, generation
from pivotrl.rollout.checks import check_engine, check_requests
from pivotrl.rollout.config import RolloutConfig
from pivotrl.rollout.failure import engine_at_work
from pivotrl.rollout.graphs import capture_sizes
from pivotrl.rollout.records import Request, Sample
from pivotrl.rollout.residence import Residence
from pivotrl.rollout.split import split_requests

__all__ = ["Engine", "Request", "Sample"]

_CPU_BLOCK = 32  # the smallest that vLLM's CPU attention takes: finer prefix sharing than its default of 128
_MIN_BATCHED_TOKENS = 4096


class Engine:
    """This rank's part of one co-located engine. Constructing it is collective over the whole world."""

    def __init__(
        self,
        config: RolloutConfig,
        model_path: str,
        dtype: str,
        seed: int,
        world: Any = None,
        routes: bool = False,
        group: int = 1,
        empty: bool = False,
    ):
        """Load the model of a Hugging Face folder into vLLM, or build it without its weights.

        Args:
            config: the run's `rollout` section, with everything set: `planning.sizes` sets what a user leaves unset.
            model_path: Hugging Face folder with weights and tokenizer.
            dtype: "float32" or "bfloat16".
            seed: of the engine; samples depend on their own requests' seeds only.
            world: `policy.parallel.World` of the run; unset, torch.distributed's ranks, or this process alone.
            routes: be able to return the experts that tokens went to (on GPUs, for models that have experts).
            group: samples of one prompt, for which a CUDA graph is made.
            empty: do not read the folder's weights: the first `refit` fills the model, and nothing is sampled before.

        Raises:
            ValueError: as `checks.check_engine`.
        """
        self.config, self.model_path, self.dtype = config, str(model_path), dtype
        self.device_kind = device.current().kind
        self.refit_route: Any = None
        """What `refit` made for this engine at its first call."""
        self.weights = ""
        """A name of the weights that the last `refit` left here: `proof.fingerprint`."""
        self.blank = empty
        """The weights are nobody's: a `refit` must write every one of them, and proves that it did."""
        assert config.max_model_len is not None and config.kv_cache_gib is not None, "planning.sizes sets these"
        self.rank, self.world_size, self.object_group = _join(world, device.current().backend)
        check_engine(config, self.model_path, self.world_size, self.device_kind)
        self.engine_index, self.engines = self.rank // config.tensor, self.world_size // config.tensor
        environment.prepare()
        from vllm import LLM

        names = [uuid.uuid4().hex]
        dist.broadcast_object_list(names, group=self.object_group)
        self.name: str = names[0]
        """The same on every rank, and unlike any other run's."""
        cache = self._least(int(config.kv_cache_gib * 2**30))
        with (
            environment.launched(self.rank, self.name),
            environment.uncompiled(self.device_kind),
            environment.routes_on_every_rank() if routes else contextlib.nullcontext(),
        ):
            self.llm = LLM(
                self.model_path,
                dtype=dtype,
                seed=seed,
                tensor_parallel_size=config.tensor,
                enable_expert_parallel=config.expert_parallel,
                distributed_executor_backend="external_launcher",
                max_model_len=config.max_model_len,
                max_num_seqs=config.max_num_seqs,
                load_format="dummy" if empty else "auto",
                kv_cache_memory_bytes=cache,
                enable_prefix_caching=True,
                enable_return_routed_experts=routes,
                logprobs_mode="raw_logprobs",
                use_tqdm_on_load=False,
                **self._platform_options(group, cache),
            )
        self.tokenizer = self.llm.get_tokenizer()
        self.residence = Residence(self.llm, self._runner, bool(config.sleep))

    def _least(self, size: int) -> int:
        """Of all ranks' (collective): schedulers that see other caches would part ways, and wait for each other."""
        everyone: list[Any] = [size] * self.world_size
        if self.world_size > 1:
            dist.all_gather_object(everyone, size, group=self.object_group)
        return min(everyone)

    def _platform_options(self, group: int, cache: int) -> dict[str, Any]:
        if self.device_kind != "cpu":
            return {
                "moe_backend": "triton",  # keeps expert weights as in the checkpoint, which a refit relies on
                "enable_sleep_mode": bool(self.config.sleep),
                # The share that must be free at the start; vLLM's own, 0.92, would not be beside a policy.
                "gpu_memory_utilization": min(1.0, cache / device.memory_bytes()),
                "compilation_config": {"cudagraph_capture_sizes": capture_sizes(self.config.max_num_seqs, group)},
            }
        # A request with a seed of its own whose prompt is computed in parts makes vLLM 0.32 rewind its generator, which
        # a CPU generator cannot do ("CPU Generator does not use offset"): prompts are computed whole.
        return {
            "enforce_eager": True,
            "block_size": _CPU_BLOCK,
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(_MIN_BATCHED_TOKENS, self.config.max_model_len),
        }

    def generate(self, requests: Sequence[Request], finished: generation.Finished | None = None) -> list[list[Sample]]:
        """Samples of each request, in order, by this rank's engine alone (collective over the engine's ranks).

        The same requests after `reset_prefix_cache` give the same tokens. `finished` is as in `generation.run`.

        Raises:
            ValueError: as `checks.check_requests`, before anything is sampled.
        """
        check_requests(requests, self.config.max_model_len)
        assert not self.blank, "the engine has no weights: refit first"
        with environment.uncompiled(self.device_kind), engine_at_work(self.rank, "sampled"):
            return generation.run(self.llm.llm_engine, requests, finished)

    def score(self, token_ids: list[int]) -> Tensor:
        """Log-prob of every token after the first, given those before it: float32 [len(token_ids) - 1] on the CPU
        (collective over the engine's ranks). Reads no cached prefix.

        Args:
            token_ids: at least 2, and fewer than `rollout.max_model_len`.
        """
        from vllm import SamplingParams

        assert not self.blank, "the engine has no weights: refit first"
        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, flat_logprobs=True, detokenize=False)
        with environment.uncompiled(self.device_kind), engine_at_work(self.rank, "scored the canary"):
            (output,) = self.llm.generate([{"prompt_token_ids": token_ids}], params, use_tqdm=False)
        return torch.tensor(output.prompt_logprobs.logprobs, dtype=torch.float32)

    def generate_all(
        self, requests: Sequence[Request], finished: generation.Finished | None = None
    ) -> list[list[Sample]]:
        """Samples of each request, in order, on every rank (collective over the world).

        Args:
            requests: the same list on every rank; each engine takes a share of about equal work.
            finished: hears on each rank of its own engine's requests as they are done; see `generation.run`.

        Raises:
            ValueError: as `generate`, on every rank.
        """
        check_requests(requests, self.config.max_model_len)
        shares = split_requests(requests, self.engines)
        share = shares[self.engine_index]
        heard = None if finished is None else lambda number, samples: finished(share[number], samples)
        mine = self.generate([requests[index] for index in share], heard)
        if self.world_size == 1:
            parts = [mine]
        else:
            first_rank_of_engine = self.rank % self.config.tensor == 0
            gathered: list[Any] = [None] * self.world_size
            dist.all_gather_object(gathered, mine if first_rank_of_engine else None, group=self.object_group)
            parts = gathered[:: self.config.tensor]
        results: list[list[Sample]] = [[] for _ in requests]
        for share, part in zip(shares, parts, strict=True):
            for index, samples in zip(share, part, strict=True):
                results[index] = samples
        return results

    @property
    def model(self) -> torch.nn.Module:
        """vLLM's model on this rank."""
        return self._runner.get_model()

    @property
    def _runner(self) -> Any:
        return self.llm.llm_engine.model_executor.driver_worker.worker.model_runner

    def sleep(self) -> None:
        """With `rollout.sleep`, give the device's memory up; a `refit` wakes the engine."""
        if self.residence.give_up():
            self.blank, self.weights = True, ""

    def wake_weights(self) -> None:
        """Memory for the weights, where the engine slept. For `refit`."""
        self.residence.take_weights()

    def wake_cache(self) -> None:
        """Memory for the cache, where the engine slept. For `refit`."""
        self.residence.take_cache()

    def reset_prefix_cache(self) -> None:
        """Forget every cached prompt. Needed after any change of weights; `refit` does it."""
        done = self.llm.reset_prefix_cache()
        assert done, "the prefix cache cannot be reset while requests run"


def _join(world: Any, backend: str) -> tuple[int, int, Any]:
    """Rank, world size and the gloo group for Python objects; makes a group of one where there is none."""
    if world is not None:
        return world.rank, world.world_size, world.object_group
    if not dist.is_initialized():
        if "RANK" in os.environ:
            dist.init_process_group(backend)
        else:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    group = dist.group.WORLD if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
    return dist.get_rank(), dist.get_world_size(), group
