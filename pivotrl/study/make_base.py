"""Makes the study's base model: the demo's, taught the harder families.

    python -m pivotrl.study.make_base --out DIR

The demo's base answers questions of one length only, all of them right: forgetting has to be large before it shows.
This one goes on from it, on the same noisy desk logs (so it stays half-good at the desk) and on questions of
`hard_families`, whose lengths and sizes vary, and ends where most answers are right and not all.
"""

import argparse
import random
from pathlib import Path

DIALOGS = 8
"""Desk logs in a step."""
SHARE = {"add": 24, "subtract": 24, "sort": 10, "reverse": 12, "shift": 18, "lookup": 18}
"""Questions of each family in a step."""
EVERY = 50
"""Steps between two measurements, each followed by a save."""


def make_base(out: Path, start: Path, seed: int, steps: int) -> None:
    """Go on from `start`, save to `out` in bf16. RuntimeError where it misses the bar."""
    import torch

    from pivotrl.demo.hard_families import HARD_FAMILIES
    from pivotrl.demo.make_base import Progress, save_base
    from pivotrl.demo.noise import NOISE
    from pivotrl.demo.pretrain import Encoder, Trainer, batch_rows, load_model, measure
    from pivotrl.demo.tokenizer import train_tokenizer

    torch.manual_seed(seed)
    tokenizer = train_tokenizer()  # the start's, without what loading notes in it
    encoder, rng = Encoder(tokenizer), random.Random(f"study/make_base/{seed}")
    model = load_model(start)
    trainer, progress = Trainer(model, encoder, rng), Progress(0, steps)
    for step in range(steps):
        scale = min((step + 1) / 20, 1.0, max(0.03, 2 * (1 - step / steps)))
        batch = batch_rows(encoder, rng, 2_000_000 + step, NOISE, DIALOGS, HARD_FAMILIES, SHARE)
        progress.show("noisy", step, trainer.update(batch, scale))
        if (step + 1) % EVERY == 0:
            ability = measure(model, encoder, known=HARD_FAMILIES)
            print("  " + ability.line(), flush=True)
            model.save_pretrained(out.with_name(out.name + "-unfinished"))
    save_base(model.to(torch.bfloat16), tokenizer, out)
    ability = measure(model.float(), encoder, tasks=150, answers=200, known=HARD_FAMILIES)
    print(ability.line(), flush=True)
    mean = sum(ability.families.values()) / len(ability.families)
    if not (0.25 <= ability.turns <= 0.6 and 0.8 <= mean < 1):
        raise RuntimeError(
            f"{out}: turns {ability.turns:.2f} (wanted .25 to .60), families {mean:.2f} (wanted .80 to .99); "
            "change --steps"
        )
    print(f"{out}: {trainer.tokens / 1e6:.2f} M tokens from {start}", flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Teach the demo's base model the harder families.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model and tokenizer")
    parser.add_argument("--start", type=Path, default=Path("pivotrl/demo/base"), help="model to go on from")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default 0)")
    parser.add_argument("--steps", type=int, default=500, help="optimizer steps (default 500)")
    options = parser.parse_args()
    make_base(options.out, options.start, options.seed, options.steps)


if __name__ == "__main__":
    main()
