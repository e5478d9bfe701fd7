"""The policy: a Megatron-Core model with its optimizer, scored and updated on packed micro-batches.

One denominator for the whole global batch is computed before the first micro-batch, and Megatron neither averages over
micro-batches nor over data-parallel ranks (`calculate_per_token_loss`), so the gradient is the same on every layout.

Legend: N = targets (response tokens) of a micro-batch, P = its tokens on this rank, H = hidden size.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.config import RunConfig
from pivotrl.objective import fused
from pivotrl.objective.loss import ResponseTokens, global_denominator, policy_loss
from pivotrl.objective.metrics import MetricSums, mean_metrics, sum_metrics
from pivotrl.policy import device
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.balance import Plan, assign
from pivotrl.policy.chunks import Chunks
from pivotrl.policy.cost import Cost
from pivotrl.policy.memory import gradient_buffers, optimizer_tensors
from pivotrl.policy.model import build_model
from pivotrl.policy.offload import Offload
from pivotrl.policy.optimizer import learning_rate, make_trainable, set_learning_rate
from pivotrl.policy.packing import MicroBatch, Sample, pack
from pivotrl.policy.parallel import World
from pivotrl.policy.router_replay import PolicyReplay
from pivotrl.policy.shards import Shards
from pivotrl.policy.weights import Exporter, load_hf

LossFunction = Callable[[MicroBatch, Tensor], tuple[Tensor, object]]


class Policy:
    """The model under training on this rank, and everything that every rank must do together with it."""

    def __init__(self, config: RunConfig, world: World):
        """Build the model on this rank's layout, load the Hugging Face weights and make the optimizer.

        Raises:
            ValueError: the model folder is unreadable or of another architecture, or the layout does not fit it.
        """
        from pivotrl.policy.head import PolicyModel
        from pivotrl.policy.load_balance import LoadBalance

        self.config, self.world = config, world
        self.arch = Architecture.from_hf(config.model.path)
        with device.scope():
            self.model = Chunks(
                build_model(
                    self.arch,
                    config.parallel,
                    config.model.dtype,
                    config.model.recompute,
                    config.model.aux_loss,
                    model_class=PolicyModel,
                )
            )
            load_hf(self.model, self.arch, config.model.path)
            if config.model.freeze_router:
                for name, parameter in self.model.named_parameters():
                    parameter.requires_grad_(".router." not in name)
            self.routes = PolicyReplay(
                self.model, self.arch, config.training.router_replay, world, config.parallel.sequence_parallel
            )
            self.ddp, self.optimizer = make_trainable(self.model, config.optimizer, config.model)
        self._balance = LoadBalance(self.model, config.model.aux_loss, world, config.parallel.sequence_parallel)
        self._offload = Offload(self.ddp, self.optimizer, list(self.model.parameters()))
        self._plain_told = False
        self._exporter = Exporter(self.model, self.arch)
        self.shards = Shards(self.model, self.arch, world, config.parallel)
        """What this rank owns, for a refit."""
        self._reference = self._snapshot() if config.objective.beta > 0 else None

    def close(self) -> None:
        """Give the memory of weights, gradients and optimizer back: nothing can be done with this policy any more.

        Storages are emptied in place, because Megatron's hooks hold the model through C++, where no collector looks.
        """
        if self.asleep:
            self.wake()
        weights = list(self.model.parameters())
        held = [*weights, *optimizer_tensors(self.optimizer, weights), *(self._reference or [])]
        for tensor in [*held, *(buffer.grad_data for buffer in gradient_buffers(self.ddp))]:
            tensor.untyped_storage().resize_(0)

    # ------------------------------------------------------------------ scoring

    def log_probs(self, samples: Sequence[Sample], temperature: float | None = None) -> list[Tensor]:
        """Log-probs of every sample's targets under the current weights (collective).

        Args:
            samples: the same list on every rank.
            temperature: of the distribution; unset, the sampling temperature of the run.

        Returns:
            On every rank, for each sample in order, a float32 CPU tensor [targets]: [len(response_ids)] without mask.
        """
        plan = self._plan(samples)

        def keep(batch: MicroBatch, hidden_P1H: Tensor) -> tuple[Tensor, object]:
            logp_N, _ = self._token_log_probs(batch, hidden_P1H, temperature)
            return logp_N.sum(), (batch.sample_N.cpu(), logp_N.detach().float().cpu())

        with torch.no_grad():
            outputs = self._run(samples, plan, keep, forward_only=True)
        found: dict[int, Tensor] = {}
        for part in self._gather(outputs):
            for sample_N, logp_N in part:
                for index in sample_N.unique().tolist():
                    found[index] = logp_N[sample_N == index]
        return [found.get(index, torch.zeros(0)) for index in range(len(samples))]

    def score(self, token_ids: Sequence[int]) -> Tensor:
        """Log-prob of every token after the first, at temperature 1: float32 [len(token_ids) - 1] (collective)."""
        return self.log_probs([Sample(token_ids[:1], token_ids[1:])], temperature=1.0)[0]

    def reference_log_probs(self, samples: Sequence[Sample]) -> list[Tensor]:
        """As `log_probs`, under the weights that the run started from (kept only where objective.beta > 0)."""
        assert self._reference is not None, "the reference is kept only where objective.beta > 0"
        current = self._snapshot()
        self._restore(self._reference)
        try:
            return self.log_probs(samples)
        finally:
            self._restore(current)

    # ------------------------------------------------------------------ training

    def sleep(self) -> None:
        """Before sampling: with `training.offload`, put gradients and the optimizer's state away, where they are not
        yet. Weights stay, so the policy can score and export."""
        if self.config.training.offload and not self.asleep:
            self._offload.sleep()

    def wake(self) -> None:
        """Before an update, or before a checkpoint is written or read: undo `sleep`, where it was called."""
        if self.asleep:
            self._offload.wake()

    @property
    def asleep(self) -> bool:
        return self._offload.asleep

    def train_step(self, samples: Sequence[Sample], step: int) -> dict[str, float]:
        """One optimizer update, or `training.updates_per_batch` of them, on a global batch (collective).

        Samples whose advantage is zero are left out of the passes where no other term of the loss could reach them;
        they still count in the denominator, so the gradient is that of the whole batch.

        Args:
            samples: the global batch, the same list on every rank.
            step: index of the step, which sets the learning rate.

        Returns:
            The objective's metrics, loss, gradient norm and learning rate, equal on every rank.
        """
        objective_config = self.config.objective
        lengths = [len(sample.targets) for sample in samples]
        denominator = global_denominator(objective_config, lengths, [sample.stands_for for sample in samples])
        if objective_config.beta == 0 and objective_config.entropy_bonus == 0 and self.config.model.aux_loss == 0:
            samples = [sample for sample in samples if sample.advantage != 0]
        with self.routes.old_policy():
            old = self.log_probs(samples) if self.config.training.updates_per_batch > 1 else None
        reference = self.reference_log_probs(samples) if objective_config.beta > 0 else None
        metrics: dict[str, float] = {}
        left_out = 0.0
        for _ in range(self.config.training.updates_per_batch):
            metrics = self.update(samples, step, denominator, old, reference)
            left_out += metrics["updates_left_out"]
        metrics["updates_left_out"] = left_out
        self.routes.forget()
        return metrics | self.routes.metrics()

    def gradients(
        self,
        samples: Sequence[Sample],
        denominator: float,
        old: Sequence[Tensor] | None = None,
        reference: Sequence[Tensor] | None = None,
    ) -> dict[str, float]:
        """Leave the objective's gradient in every parameter's `main_grad`, reduced over ranks; returns the metrics."""
        plan = self._plan(samples)
        if plan.note and self.world.rank == 0 and not self._plain_told:
            print(plan.note, flush=True)
            self._plain_told = True
        return self._backward(samples, plan, partial(self._loss, samples, denominator, old, reference))

    def update(
        self,
        samples: Sequence[Sample],
        step: int,
        denominator: float,
        old: Sequence[Tensor] | None = None,
        reference: Sequence[Tensor] | None = None,
    ) -> dict[str, float]:
        """One optimizer step down the gradient of `gradients`; its metrics, with grad_norm (before clipping) and lr.

        A loss or gradient that is not finite on any rank changes nothing: weights and optimizer stay as they are, and
        `updates_left_out` is 1.
        """
        return self._descend(self.gradients(samples, denominator, old, reference), step)

    def imitate(self, samples: Sequence[Sample], step: int) -> dict[str, float]:
        """One optimizer update towards the samples' targets (collective): down their cross entropy at temperature 1, a
        mean over all targets of the global batch. Nothing of `objective` is read.

        Args:
            samples: the global batch, the same list on every rank.
            step: as in `train_step`, which also says what is returned; `loss` is the cross entropy in nats.
        """
        denominator = sum(len(sample.targets) for sample in samples)
        assert denominator, "a batch has targets"
        metrics = self._backward(samples, self._plan(samples), partial(self._cross_entropy, denominator))
        return self._descend(metrics, step)

    def _backward(self, samples: Sequence[Sample], plan: Plan, loss: LossFunction) -> dict[str, float]:
        """Leave the gradient of the summed losses in every `main_grad`, reduced over ranks; returns the metrics."""
        assert not self.asleep, "call wake() before an update"
        with device.scope():
            for ddp in self.ddp:
                ddp.zero_grad_buffer()
            self.optimizer.zero_grad()
        with self.routes.replaying():
            outputs = self._run(samples, plan, loss)
        balance = self._balance.metrics(self.arch.layers)
        parts = [part for rank in self._gather(outputs) for part in rank]
        # Without a sample there is no token to take a mean over: the loss and its gradient are zero.
        metrics = mean_metrics([sums for _, sums in parts]) if samples else {}
        return metrics | {"loss": sum(value for value, _ in parts), "prompt_once_gain": plan.gain} | balance

    def _descend(self, metrics: dict[str, float], step: int) -> dict[str, float]:
        """Take the optimizer's step down the gradient that `_backward` left, if all of it is finite."""
        lr = learning_rate(self.config.optimizer, step)
        if not self._finite(metrics["loss"]):
            return metrics | {"grad_norm": math.nan, "lr": lr, "updates_left_out": 1.0}
        set_learning_rate(self.optimizer, self.config.optimizer, lr)
        with device.scope():
            _, grad_norm, _ = self.optimizer.step()
        return metrics | {"grad_norm": float(grad_norm), "lr": lr, "updates_left_out": 0.0}

    def _finite(self, loss: float) -> bool:
        """Whether the loss and every rank's gradients are finite (collective). Reads the gradients once; their sum is
        finite where they all are, for any that training gives."""
        sums = [buffer.grad_data.sum() for buffer in gradient_buffers(self.ddp)]
        finite = torch.tensor(int(math.isfinite(loss) and all(bool(total.isfinite()) for total in sums)))
        dist.all_reduce(finite, op=dist.ReduceOp.MIN, group=self.world.object_group)
        return bool(finite.item())

    def _loss(
        self,
        samples: Sequence[Sample],
        denominator: float,
        old: Sequence[Tensor] | None,
        reference: Sequence[Tensor] | None,
        batch: MicroBatch,
        hidden_P1H: Tensor,
    ) -> tuple[Tensor, tuple[float, MetricSums]]:
        logp_N, entropy_N = self._token_log_probs(batch, hidden_P1H)
        indices, sample_index_N = batch.sample_N.unique(return_inverse=True)  # sorted, as the micro-batch is packed

        def per_token(rows: Sequence[Sequence[float] | Tensor]) -> Tensor:
            """The micro-batch's rows of a list with one row of numbers per sample, end to end."""
            mine = [torch.as_tensor(rows[index], dtype=torch.float32) for index in indices.tolist()]
            return torch.cat(mine).to(logp_N.device) if mine else logp_N.new_zeros(0)

        # The engine reports log-probs at temperature 1; at another they are of another distribution than the trainer's.
        untempered = self.config.rollout.temperature == 1
        result = (fused.policy_loss if fused.runs_on(logp_N) else policy_loss)(
            self.config.objective,
            ResponseTokens(
                logp_T=logp_N,
                sample_index_T=sample_index_N,
                advantages_S=logp_N.new_tensor([samples[index].advantage for index in indices.tolist()]),
                old_logp_T=None if old is None else per_token(old),
                reference_logp_T=None if reference is None else per_token(reference),
                sampler_logp_T=per_token([sample.sampler_log_probs for sample in samples]) if untempered else None,
                entropy_T=entropy_N,
            ),
            denominator,
        )
        # A dummy's loss, too, has a graph: its rank takes part in every collective of the backward pass.
        return result.loss, (result.loss.item(), result.metrics)

    def _cross_entropy(
        self, denominator: float, batch: MicroBatch, hidden_P1H: Tensor
    ) -> tuple[Tensor, tuple[float, MetricSums]]:
        logp_N, entropy_N = self._token_log_probs(batch, hidden_P1H, temperature=1.0)
        loss = -logp_N.sum() / denominator
        every_N = torch.ones_like(logp_N, dtype=torch.bool)
        return loss, (loss.item(), sum_metrics({"entropy": entropy_N.detach()}, every_N))

    # ------------------------------------------------------------------ weights

    def export(self, stack_experts: bool = False) -> Iterator[tuple[str, Tensor]]:
        """Every weight under its Hugging Face name, whole, on every rank (collective); see `weights.Exporter`."""
        return self._exporter.tensors(stack_experts)

    def _snapshot(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]

    def _restore(self, snapshot: list[Tensor]) -> None:
        with torch.no_grad():
            for parameter, saved in zip(self.model.parameters(), snapshot, strict=True):
                parameter.copy_(saved)

    # ------------------------------------------------------------------ passes

    def _plan(self, samples: Sequence[Sample]) -> Plan:
        """The micro-batches of all ranks."""
        runs_of = self.world.pp_size if self.world.vp_size > 1 else 1
        chosen, ranks = self.config.training, self.world.dp_size
        return assign(samples, chosen.micro_batch_tokens, ranks, chosen.packing, Cost.of(self.arch), runs_of)

    def _token_log_probs(
        self, batch: MicroBatch, hidden_P1H: Tensor, temperature: float | None = None
    ) -> tuple[Tensor, Tensor]:
        temperature = self.config.rollout.temperature if temperature is None else temperature
        return self.model[-1].token_log_probs(hidden_P1H, batch.logit_index_N, batch.target_N, temperature)

    def _run(self, samples: Sequence[Sample], plan: Plan, loss: LossFunction, forward_only: bool = False) -> list:
        """Run the pipeline schedule over this rank's micro-batches; what `loss` reports, on last stages, in order."""
        from megatron.core.pipeline_parallel import get_forward_backward_func

        from pivotrl.policy.attention import packed_params

        multiple_of = self.config.parallel.tensor
        mine = plan.ranks[self.world.dp_rank]
        batches = [pack(samples, pieces, multiple_of, device.current().torch_device) for pieces in mine]
        rows = [(batch, packed_params(batch, plan.packing)) for batch in batches]

        def forward_step(iterator: Iterator[tuple], model: torch.nn.Module):
            batch, packed = next(iterator)
            mask = self._balance.mask(batch, model)
            output = model(batch.input_ids, batch.position_ids, None, packed_seq_params=packed, **mask)

            def finish(hidden_P1H: Tensor):
                value, report = loss(batch, hidden_P1H)
                return value, torch.ones((), dtype=torch.int, device=value.device), report

            return output, finish

        with device.scope(), self.routes.over(samples, batches), self._balance.over(batches):
            return get_forward_backward_func()(
                forward_step_func=forward_step,
                data_iterator=[iter(rows) for _ in self.ddp],  # the interleaved schedule wants one for each chunk
                model=self.ddp,
                num_microbatches=len(batches),
                seq_length=max(batch.input_ids.shape[1] for batch in batches),
                micro_batch_size=1,
                forward_only=forward_only,
            )

    def _gather(self, outputs: list) -> list[list]:
        """Each data-parallel rank's last-stage outputs, once, in rank order, on every rank."""
        mine = outputs if self.world.is_last_stage and self.world.tp_rank == 0 else None
        if self.world.world_size == 1:
            return [outputs]
        everyone: list = [None] * self.world.world_size
        dist.all_gather_object(everyone, mine, group=self.world.object_group)
        return [part for part in everyone if part is not None]
