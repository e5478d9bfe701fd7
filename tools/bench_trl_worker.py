"""The long-lived children of tools/bench_against_trl.py; nobody starts them by hand.

    python tools/bench_trl_worker.py sample | pivotrl | trl  '{"batch": FILE, ...}'

`sample` writes the batch and ends. The other two hold one training system and do one step for each JSON line on their
standard input, answering with one on their standard output. Under RANK and WORLD_SIZE several processes are one child:
rank 0 reads and answers. `trl` runs in TRL's own environment and imports nothing of PivotRL.
"""

import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

REPOSITORY = Path(__file__).resolve().parents[1]


class Laps:
    """Wall seconds since `start`, each lap added to a phase."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.seconds: dict[str, float] = {}
        self._cpu = time.process_time()
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now

    def cpu_seconds(self) -> float:
        """Of this process with all its threads, since `start`."""
        return time.process_time() - self._cpu


class Channel:
    """Requests in, answers out, for every process of this child."""

    def __init__(self) -> None:
        self._rank, self._ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        # Libraries print: what they say goes to the log, and only answers to the driver.
        self._out: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def announce(self, versions: dict[str, str]) -> None:
        """Ready. From here on the peak of resident memory is counted anew."""
        ready = sum(self._gather(_resident("VmRSS")))
        Path("/proc/self/clear_refs").write_text("5")
        if self._rank == 0:
            self._say({"versions": versions, "ready_bytes": ready})

    def next_request(self) -> dict[str, Any] | None:
        """The next step to do, the same on every rank; None where the driver has hung up."""
        line = [sys.stdin.readline() if self._rank == 0 else ""]
        if self._ranks > 1:
            import torch.distributed as dist

            dist.broadcast_object_list(line)
        return json.loads(line[0]) if line[0] else None

    def answer(self, laps: Laps, loss: float) -> None:
        cpu = self._gather(laps.cpu_seconds())
        peak = self._gather(_resident("VmHWM"))
        losses = self._gather(loss)
        if self._rank == 0:
            self._say(
                {
                    "seconds": sum(laps.seconds.values()),
                    "phases": laps.seconds,
                    "cpu_seconds": sum(cpu),
                    "peak_bytes": sum(peak),
                    "losses": losses,
                }
            )

    def _say(self, value: dict[str, Any]) -> None:
        print(json.dumps(value), file=self._out, flush=True)

    def _gather(self, value: float) -> list[float]:
        if self._ranks == 1:
            return [value]
        import torch.distributed as dist

        found: list = [None] * self._ranks
        dist.all_gather_object(found, value)
        return found


def _resident(key: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))


# ---------------------------------------------------------------------- the batch


def sample(options: dict[str, Any]) -> None:
    """Write the batch: turns of the demo's expert trajectories, and what the base model does there, by the engine.

    Rewards are made up, so that every group is mixed: what is timed does not depend on their values. `rewards_some`
    leaves only a share of the groups mixed.
    """
    sys.path.insert(0, str(REPOSITORY))
    from pivotrl.quiet import quiet

    quiet()
    from pivotrl.config import load_config
    from pivotrl.demo.run import TRAJECTORIES
    from pivotrl.demo.trajectories import write
    from pivotrl.planning.sizes import for_engine_alone
    from pivotrl.rollout.engine import Engine, Request
    from pivotrl.trajectories.records import Turn
    from pivotrl.trajectories.template import ChatTemplate
    from pivotrl.trajectories.turns import TurnReader

    config = for_engine_alone(load_config(REPOSITORY / "configs/demo_cpu.yaml", [f"model.path={options['model']}"]))
    out, rng = Path(options["batch"]), random.Random(0)
    trajectories = out.with_suffix(".trajectories.jsonl")
    write(trajectories, TRAJECTORIES, "train")
    section = config.trajectories.model_copy(update={"files": [str(trajectories)]})
    turns = [t for t in TurnReader(section, config.seed) if isinstance(t, Turn) and t.split == "train"]
    template = ChatTemplate(config.model.path)
    prompts = [template.encode(turn.messages, turn.tools) for turn in rng.sample(turns, options["prompts"])]
    engine = Engine(config.rollout, config.model.path, config.model.dtype, config.seed)
    size, longest = options["samples"], config.rollout.max_new_tokens
    groups = engine.generate_all(
        [Request(prompt, size, seed, 1.0, 1.0, longest) for seed, prompt in enumerate(prompts)]
    )
    rewards = [[1.0, 0.0, *(float(rng.random() < 0.5) for _ in range(size - 2))] for _ in prompts]
    mixed = round(options["signal"] * len(prompts))
    some = [group if index < mixed else [1.0] * size for index, group in enumerate(rewards)]
    batch = {
        "prompts": prompts,
        "completions": [[s.token_ids for s in group] for group in groups],
        "log_probs": [[s.logprobs for s in group] for group in groups],
        "rewards_all": rewards,
        "rewards_some": some,
    }
    out.write_text(json.dumps(batch))


# ---------------------------------------------------------------------- PivotRL


def serve_pivotrl(options: dict[str, Any], batch: dict[str, Any], channel: Channel) -> None:
    """`Policy.train_step` on the batch, with the demo's configuration and these options laid over it."""
    sys.path.insert(0, str(REPOSITORY))
    from pivotrl.quiet import quiet

    quiet()
    import megatron.core
    import torch
    import torch.distributed as dist

    from pivotrl.config import load_config
    from pivotrl.objective.advantage import group_advantages
    from pivotrl.policy.packing import Sample
    from pivotrl.policy.parallel import initialize
    from pivotrl.policy.step import Policy

    torch.set_num_threads(options["threads"])
    config = load_config(REPOSITORY / "configs/demo_cpu.yaml", options["overrides"])
    world = initialize(config.parallel, config.seed)
    policy = Policy(config, world)
    laps = Laps()
    policy._run = _timed(policy._run, laps, "passes")
    policy.optimizer.step = _timed(policy.optimizer.step, laps, "update")
    rows = [
        (index, prompt, response, log_probs)
        for index, prompt in enumerate(batch["prompts"])
        for response, log_probs in zip(batch["completions"][index], batch["log_probs"][index], strict=True)
    ]

    def make_samples(rewards: list[list[float]]) -> list[Sample]:
        rewards_N = torch.tensor([reward for group in rewards for reward in group], dtype=torch.float64)
        objective = config.objective
        advantages_N = group_advantages(
            rewards_N, [index for index, *_ in rows], objective.advantage, objective.advantage_epsilon
        )
        return [Sample(*row[1:], advantage) for row, advantage in zip(rows, advantages_N.tolist(), strict=True)]

    channel.announce(
        {"torch": torch.__version__, "megatron-core": megatron.core.__version__, "python": sys.version.split()[0]}
    )
    step = 0
    while request := channel.next_request():
        if "gradients" in request:
            gradients = _whole_gradients(policy, make_samples(batch[request["rewards"]]))
            if world.rank == 0:
                _save(gradients, request["gradients"])
        if world.world_size > 1:
            dist.barrier()
        laps.start()
        samples = make_samples(batch[request["rewards"]])
        laps.lap("prepare")
        metrics = policy.train_step(samples, step)
        if world.world_size > 1:
            dist.barrier()
        laps.lap("other")
        channel.answer(laps, metrics["loss"])
        step += 1


def _timed(function: Callable, laps: Laps, phase: str) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        laps.lap("other")
        result = function(*args, **kwargs)
        laps.lap(phase)
        return result

    return call


def _whole_gradients(policy: Any, samples: list) -> dict[str, Any]:
    """Every parameter's gradient under its Hugging Face name: exported as if it were the weight (one data rank)."""
    import torch

    from pivotrl.objective.loss import global_denominator
    from pivotrl.policy import device

    denominator = global_denominator(policy.config.objective, [len(sample.response_ids) for sample in samples])
    policy.gradients(samples, denominator)
    parameters = list(policy.model.parameters())
    with torch.no_grad(), device.scope():
        weights = [parameter.detach().clone() for parameter in parameters]
        for parameter in parameters:
            parameter.copy_(parameter.main_grad)
        found = {name: tensor.clone() for name, tensor in policy.export(stack_experts=True)}
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(weight)
    return found


def _save(tensors: dict[str, Any], path: str) -> None:
    from safetensors.torch import save_file

    save_file({name: tensor.detach().float().contiguous() for name, tensor in tensors.items()}, path)


# ---------------------------------------------------------------------- TRL


class _HungUp(Exception):
    """The driver is done; leaves the trainer's loop."""


def serve_trl(options: dict[str, Any], batch: dict[str, Any], channel: Channel) -> None:
    """GRPOTrainer's own loop. `_generate` waits for a request and hands the batch's completions over.

    The clock starts when `_generate` is done (TRL decodes the completions there and counts their lengths) and stops
    before the callbacks of a finished step, behind the optimizer and `zero_grad`. Between two steps the trainer fetches
    the next prompts from the data loader: not counted.
    """
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"}
    if "RANK" in os.environ:
        os.environ["ACCELERATE_USE_CPU"] = "true"
    import accelerate
    import datasets
    import torch
    import transformers
    import trl
    from transformers import AutoTokenizer, TrainerCallback

    torch.set_num_threads(options["threads"])
    size, prompts = len(batch["completions"][0]), len(batch["prompts"])
    processes, rows = int(os.environ.get("WORLD_SIZE", "1")), options["rows"]
    laps, state = Laps(), {"request": {}, "loss": 0.0}

    def requests() -> Iterator[dict[str, Any]]:
        while request := channel.next_request():
            yield request

    waiting = requests()

    def rollouts(texts: list[str], trainer: trl.GRPOTrainer) -> dict[str, Any]:
        """A prompt's text is the number of a row of the dataset; its samples follow each other."""
        picked = [(int(text) % prompts, index % size) for index, text in enumerate(texts)]
        state["rewards"] = [batch[state["request"]["rewards"]][prompt][one] for prompt, one in picked]
        return {
            "prompt_ids": [batch["prompts"][prompt] for prompt, _ in picked],
            "completion_ids": [batch["completions"][prompt][one] for prompt, one in picked],
            "logprobs": None,
        }

    class Trainer(trl.GRPOTrainer):
        def _generate(self, texts: list) -> tuple:
            state["request"] = next(waiting, None)
            if state["request"] is None:
                raise _HungUp
            state["loss"] = 0.0
            result = super()._generate(texts)
            laps.start()
            return result

        def _prepare_inputs(self, inputs: Any) -> Any:
            result = super()._prepare_inputs(inputs)
            laps.lap("prepare")
            return result

        def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            loss = super().training_step(*args, **kwargs)
            state["loss"] += float(loss)
            if self.accelerator.sync_gradients and "gradients" in state["request"]:
                module = self.accelerator.unwrap_model(self.model)
                found = {name: p.grad for name, p in module.named_parameters()}
                if self.accelerator.is_main_process:
                    _save(found, state["request"]["gradients"])
            laps.lap("passes")
            return loss

    class Finish(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            laps.lap("update")
            channel.answer(laps, state["loss"])

    trainer = Trainer(
        model=options["model"],
        reward_funcs=lambda **_: state["rewards"],
        args=trl.GRPOConfig(
            output_dir=options["scratch"],
            use_cpu=True,
            bf16=False,
            ddp_backend="gloo" if processes > 1 else None,
            model_init_kwargs={
                "dtype": "float32",
                "attn_implementation": "sdpa",
                "experts_implementation": options["experts"],
            },
            router_aux_loss_coef=0.0,
            gradient_checkpointing=False,
            disable_dropout=False,
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=prompts * size // (rows * processes),
            num_generations=size,
            max_completion_length=options["max_new_tokens"],
            num_iterations=1,
            beta=0.0,
            loss_type="dapo",
            scale_rewards="none",
            shuffle_dataset=False,
            learning_rate=options["lr"],
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=1.0,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            max_steps=10_000,
        ),
        train_dataset=datasets.Dataset.from_dict({"prompt": [str(index) for index in range(100 * prompts)]}),
        processing_class=AutoTokenizer.from_pretrained(options["model"]),
        rollout_func=rollouts,
        callbacks=[Finish()],
    )
    modules = (trl, transformers, accelerate, datasets, torch)
    channel.announce({m.__name__: m.__version__ for m in modules} | {"python": sys.version.split()[0]})
    with contextlib.suppress(_HungUp):
        trainer.train()


def main() -> None:
    role, options = sys.argv[1], json.loads(sys.argv[2])
    if role == "sample":
        sample(options)
        return
    batch = json.loads(Path(options["batch"]).read_text())
    {"pivotrl": serve_pivotrl, "trl": serve_trl}[role](options, batch, Channel())


if __name__ == "__main__":
    main()
