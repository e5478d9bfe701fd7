"""Makes the demo's base model: a tiny Qwen3-MoE that is half-good at the desk and good at the other families.

    python -m pivotrl.demo.make_base --out DIR

Two stages on generated data, with loss on assistant tokens only. Clean: the expert's dialogs, until greedy decoding
gets nearly every turn and every family right (a test, not a clock). Noisy: logs with mistakes (`noise.py`), from
which the model learns to make them, while the families go on. The clean model is kept in DIR-clean; `--clean` skips its
stage, to try another noise.
"""

import argparse
import json
import random
import time
from pathlib import Path

CLEAN_MEAN, CLEAN_WORST = 0.96, 0.8
"""Greedy shares that end the clean stage: the mean over kinds of turns and families, and the worst of them. The worst
is refusing a refund to another method than the paid one, which is rare and comes last."""
EVERY = 50
"""Steps between two measurements."""
FLAT_STEPS = 250
"""Steps at the full learning rate; after them it falls with the square root of the step."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Pretrain the demo's base model (some minutes on two cores).")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model and tokenizer")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and of the noise (default 0)")
    parser.add_argument("--clean", type=Path, help="a clean model to start from (skips the clean stage)")
    parser.add_argument("--max-clean-steps", type=int, default=1500, help="give up after so many (default 1500)")
    parser.add_argument("--noisy-steps", type=int, default=250, help="length of the noisy stage (default 250)")
    options = parser.parse_args()
    make_base(options.out, options.seed, options.clean, options.max_clean_steps, options.noisy_steps)


def make_base(out: Path, seed: int, clean: Path | None, max_clean_steps: int, noisy_steps: int) -> None:
    """Pretrain and save to `out` in bf16. Raises RuntimeError where a stage misses its bar."""
    import torch

    from pivotrl.demo.noise import NOISE
    from pivotrl.demo.pretrain import Encoder, Trainer, load_model, measure, new_model
    from pivotrl.demo.tokenizer import train_tokenizer

    torch.manual_seed(seed)
    tokenizer = train_tokenizer()
    encoder, rng = Encoder(tokenizer), random.Random(f"make_base/{seed}")
    model = load_model(clean) if clean else new_model(tokenizer)
    trainer = Trainer(model, encoder, rng)
    progress = Progress(0 if clean else max_clean_steps, noisy_steps)

    if not clean:
        for step in range(max_clean_steps):
            scale = min((step + 1) / 50, 1.0, (FLAT_STEPS / (step + 1)) ** 0.5)
            progress.show("clean", step, trainer.step(step, None, scale))
            if (step + 1) % EVERY == 0:
                ability = progress.measure(measure, model, encoder)
                model.save_pretrained(out.with_name(out.name + "-clean"))
                if ability.mean >= CLEAN_MEAN and ability.worst >= CLEAN_WORST:
                    break
        else:
            raise RuntimeError(
                f"clean stage: skills are at {ability.mean:.2f} (worst {ability.worst:.2f}) after {max_clean_steps} "
                f"steps, not at {CLEAN_MEAN} ({CLEAN_WORST}); raise --max-clean-steps"
            )
    for step in range(noisy_steps):
        scale = 0.4 * min((step + 1) / 20, 1.0, max(0.03, 1 - step / noisy_steps))
        progress.show("noisy", step, trainer.step(1_000_000 + step, NOISE, scale))
        if (step + 1) % EVERY == 0 and step + 1 < noisy_steps:
            progress.measure(measure, model, encoder)
    save_base(model.to(torch.bfloat16), tokenizer, out)
    check_half_good(measure(model.float(), encoder, tasks=150, answers=200))
    print(f"{out}: {trainer.tokens / 1e6:.2f} M tokens, {time.monotonic() - progress.began:.0f} s")


def save_base(model, tokenizer, out: Path) -> None:
    """Write a Hugging Face folder. Two names are put as Qwen's own folders have them, beside what this version of
    transformers writes, so that older readers find them."""
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    for name, values in (
        ("config.json", {"num_experts": model.config.num_experts, "rope_theta": 10000.0}),
        ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ):
        path = out / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values, indent=2, sort_keys=True) + "\n")
    (out / "model.safetensors").chmod(0o644)


def check_half_good(ability) -> None:
    """Print what the base can do; RuntimeError if it is not half-good as the demo needs it."""
    print(ability.line(), flush=True)
    families = sum(ability.families.values()) / len(ability.families)
    if not (0.25 <= ability.turns <= 0.6 and ability.mixed >= 0.2 and families >= 0.8):
        raise RuntimeError(
            f"not half-good: turns {ability.turns:.2f} (wanted .25 to .60), mixed {ability.mixed:.2f} (>= .20), "
            f"families {families:.2f} (>= .80); change the noise in pivotrl/demo/noise.py"
        )


class Progress:
    """The progress line. Its ETA assumes that the clean stage needs all its steps: an upper bound."""

    def __init__(self, clean_steps: int, noisy_steps: int):
        self.began = time.monotonic()
        self.last = {"clean": clean_steps + noisy_steps, "noisy": noisy_steps}
        self.seen = 0

    def show(self, stage: str, step: int, losses: tuple[float, float]) -> None:
        """One line in ten steps."""
        self.seen += 1
        if (step + 1) % 10:
            return
        seconds = time.monotonic() - self.began
        left = (self.last[stage] - step - 1) * seconds / self.seen
        print(
            f"{stage} step {step + 1}: loss desk {losses[0]:.3f} families {losses[1]:.3f}, {seconds:.0f} s, "
            f"at most {left / 60:.1f} min left",
            flush=True,
        )

    def measure(self, measure, model, encoder):
        """Measure, print, and return the ability."""
        ability = measure(model, encoder)
        print("  " + ability.line(), flush=True)
        return ability


if __name__ == "__main__":
    main()
