"""Makes the demo's base model: a tiny Qwen3-MoE that is half-good at the desk and good at the other families.

    python -m pivotrl.demo.make_base --out DIR

Two stages on generated data, with loss on assistant tokens only. Clean: the expert's dialogs, until greedy decoding
gets every kind of turn and every family right (a test, not a clock). Noisy: logs with mistakes (`noise.py`), from
which the model learns to make them; the other families go on. About 15 minutes on two cores.
"""

import argparse
import random
import time
from pathlib import Path

CLEAN_BAR = 0.95
"""Greedy share that every kind of turn and every family reaches before the noisy stage."""
EVERY = 100
"""Steps between two measurements."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Pretrain the demo's base model (about 15 minutes on two cores).")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model and tokenizer")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and of the noise (default 0)")
    parser.add_argument("--max-clean-steps", type=int, default=3000, help="give up after so many (default 3000)")
    parser.add_argument("--noisy-steps", type=int, default=500, help="length of the noisy stage (default 500)")
    options = parser.parse_args()
    make_base(options.out, options.seed, options.max_clean_steps, options.noisy_steps)


def make_base(out: Path, seed: int, max_clean_steps: int, noisy_steps: int) -> None:
    """Pretrain and save to `out` in bf16. Raises RuntimeError where a stage misses its bar."""
    import torch

    from pivotrl.demo.noise import NOISE
    from pivotrl.demo.pretrain import Encoder, measure, new_model
    from pivotrl.demo.tokenizer import train_tokenizer

    torch.manual_seed(seed)
    tokenizer = train_tokenizer()
    encoder, model = Encoder(tokenizer), new_model(tokenizer)
    trainer = Trainer(model, encoder, random.Random(f"make_base/{seed}"))
    for _ in range(0, max_clean_steps, EVERY):
        trainer.run(EVERY, None, "clean", max_clean_steps, 1.0, 1.0)
        ability = measure(model, encoder)
        print("  " + ability.line(), flush=True)
        lowest = min([*ability.greedy.values(), *ability.families.values()])
        if lowest >= CLEAN_BAR:
            break
    else:
        raise RuntimeError(
            f"clean stage: the worst skill is at {lowest:.2f} after {max_clean_steps} steps, not at {CLEAN_BAR}"
        )
    clean_steps = trainer.step
    for first in range(0, noisy_steps, EVERY):
        steps = min(EVERY, noisy_steps - first)
        start, end = 1 - first / noisy_steps, 1 - (first + steps) / noisy_steps
        trainer.run(steps, NOISE, "noisy", clean_steps + noisy_steps, max(start, 0.02), max(end, 0.02))
        ability = measure(model, encoder)
        print("  " + ability.line(), flush=True)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    check_half_good(measure(model.float(), encoder, tasks=150, answers=200))
    print(f"{out}: {trainer.tokens / 1e6:.2f} M tokens, {trainer.seconds:.0f} s")


def check_half_good(ability) -> None:
    """Print what the base can do; RuntimeError if it is not half-good as the demo needs it."""
    print(ability.line(), flush=True)
    families = sum(ability.families.values()) / len(ability.families)
    if not (0.25 <= ability.turns <= 0.6 and ability.mixed >= 0.2 and families >= 0.8):
        raise RuntimeError(
            f"not half-good: turns {ability.turns:.2f} (wanted .25 to .60), mixed {ability.mixed:.2f} (>= .20), "
            f"families {families:.2f} (>= .80); change the noise in pivotrl/demo/noise.py"
        )


class Trainer:
    """Model, optimizers and progress line."""

    def __init__(self, model, encoder, rng: random.Random, lr: float = 3e-3, dialogs: int = 16):
        import torch

        from pivotrl.demo.pretrain import Muon

        def is_matrix(name, parameter):
            return parameter.ndim >= 2 and not any(part in name for part in ("embed", "lm_head", "gate.weight"))

        named = list(model.named_parameters())
        matrices = [p for n, p in named if is_matrix(n, p)]
        others = [p for n, p in named if not is_matrix(n, p)]
        self.optimizers = [torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.01), Muon(matrices, lr)]
        self.model, self.encoder, self.rng, self.lr, self.dialogs = model, encoder, rng, lr, dialogs
        self.step = self.tokens = 0
        self.seconds = 0.0

    def run(self, steps: int, noise: dict | None, stage: str, last: int, start: float, end: float) -> None:
        """`steps` updates; the learning rate goes linearly from start to end (shares of lr). `last`: steps at most,
        for the ETA."""
        import torch

        from pivotrl.demo.pretrain import batch_rows, collate, cross_entropy

        self.model.train()
        began = time.monotonic()
        for number in range(steps):
            losses = []
            for rows in batch_rows(self.encoder, self.rng, self.step, self.dialogs, noise):
                ids_BL, labels_BL = collate(rows, self.encoder.tokenizer.pad_token_id)
                loss = cross_entropy(self.model, ids_BL, labels_BL)
                loss.backward()
                losses.append(loss.item())
                self.tokens += ids_BL.numel()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            scale = (start + (end - start) * number / steps) * min(1.0, (self.step + 1) / 50)
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = self.lr * scale
                optimizer.step()
                optimizer.zero_grad()
            self.step += 1
            if self.step % 20 == 0:
                seconds = self.seconds + time.monotonic() - began
                eta = (last - self.step) * seconds / self.step
                print(
                    f"{stage} step {self.step}: loss desk {losses[0]:.3f} families {losses[1]:.3f}, "
                    f"{self.tokens / 1e6:.2f} M tokens, {seconds:.0f} s, at most {eta / 60:.1f} min left",
                    flush=True,
                )
        self.seconds += time.monotonic() - began


if __name__ == "__main__":
    main()
