"""The parity suite: every layout of parity_cases.py trains three steps and is held against transformers in float64.

`python -m tests.policy.parity --write` runs it and writes docs/parity.md.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.launch import REPOSITORY, launch
from tests.policy import parity_reference
from tests.policy.parity_cases import CASES, Case
from tests.policy.parity_errors import errors

PAGE = REPOSITORY / "docs" / "parity.md"
WORKER = Path(__file__).with_name("parity_ranks.py")

FLOAT32 = {
    "logits": 1e-5,
    "log_probs": 1e-5,
    "loss": 1e-6,
    "grad_norm": 1e-6,
    "grads": 1e-6,
    "worst": 1e-5,
    "weights": 2e-4,
    "way": 5e-4,
    "to_first": 1e-6,
}
"""What each error of a float32 case stays under; see `parity_errors.errors`. `to_first` is `grads` against our own
single process instead of the reference."""
FLOAT64 = dict.fromkeys(FLOAT32, 1e-12)

Result = tuple[Case, dict[str, float]]


def run(folder: Path, cases: list[Case]) -> list[Result]:
    """Run cases of one number of ranks in one launch; the references are in `folder`."""
    (ranks,) = {case.ranks for case in cases}
    output = launch(ranks, WORKER, str(folder), json.dumps([case.values for case in cases]), timeout=600)
    found = [json.loads(line.partition("CASE ")[2]) for line in output.splitlines() if "CASE " in line]
    return list(zip(cases, found, strict=True))


def of_ranks(ranks: int, cases: list[Case]) -> list[Case]:
    """Those that run on so many ranks."""
    return [case for case in cases if case.ranks == ranks]


def make_references(folder: Path) -> None:
    """A model and its reference for each kind that a case needs."""
    for kind in sorted({case.model for case in CASES}):
        (folder / kind).mkdir()
        parity_reference.make(kind, folder / kind)


def over_the_bar(case: Case, result: dict[str, float]) -> dict[str, float]:
    """The errors that are too large, or not numbers."""
    bars = FLOAT64 if case.dtype == "float64" else FLOAT32  # which holds where a part is float32, too
    return {name: error for name, error in result.items() if not error < bars[name]}


def transformers_float32(folder: Path) -> dict[str, dict[str, float]]:
    """For each kind of model, what transformers' own float32 differs by from its float64."""
    found = {}
    for path in sorted(folder.glob("*/reference.pt")):
        reference = torch.load(path)
        found[path.parent.name] = errors(reference["float32"], reference["exact"], reference["start"])
    return found


# ---------------------------------------------------------------------- the page

HEAD = """# Parity: one gradient on every layout

`python -m tests.policy.parity --write` runs the suite and writes this page; `pytest tests/policy/test_parity.py` runs
it and holds every error under the bars of the last rows.

Every row trains a tiny model ({layers} layers) for three steps of AdamW with clipping, weight decay, an old and a
reference policy, on {samples} samples in groups of 1, 2 and 4 (prompts of 1 to 24 tokens, responses of 1 to 7). The
reference is transformers in float64, each response on a row of its own behind its own copy of the prompt. Nothing in it
is float32: the casts that transformers makes in RMSNorm, in RoPE and in the router are lifted.

- *logits*, *log-probs*: largest absolute error at response tokens, over the whole vocabulary; logits by the model's own
  output layer, gathered over tensor-parallel ranks. *loss*, *norm*: relative error of the first step's loss, and of the
  gradient norm that the optimizer clips by.
- *gradient*: |g - exact| / |exact| of all parameters together; *worst tensor*: the largest of a single tensor (an
  expert's projection is one). With the sharded optimizer the shards of all ranks are put together first.
- *to one rank*: as *gradient*, against the first plain row of the same model instead of the reference.
- *weights*: largest absolute error after three steps (lr {lr:g}); *way*: |w - exact| / |exact - start| of all weights.

*tokens* is `training.micro_batch_tokens`. A *sharded* optimizer is Megatron's distributed one. VP: chunks on each
pipeline stage. Models: `moe` is a Qwen3-MoE, `moe_raw_probs` one with tied embeddings and `norm_topk_prob` false,
`dense` a Qwen3.

How to read it: the first rows show what float32 costs transformers itself, and every layout costs the same. That this
is rounding and not a mistake is what the `float64` rows show: the same code, its own float32 islands lifted, gives the
reference to 1e-12 with prompts shared, pipelines interleaved and the optimizer sharded. Two of the islands are put back
one at a time: the angles of RoPE and the router (its product and its softmax). Neither explains the float32 rows; the
most of it is the float32 of all other products and sums.
"""

COLUMNS = {
    "logits": "logits",
    "log_probs": "log-probs",
    "loss": "loss",
    "grad_norm": "norm",
    "grads": "gradient",
    "worst": "worst tensor",
    "to_first": "to one rank",
    "weights": "weights",
    "way": "way",
}


def labels(case: Case) -> list[str]:
    """What tells a case from the others, as the page's first columns say it."""
    model = case.model if case.dtype == "float32" else f"{case.model} {case.dtype}"
    packing = case.packing.replace("_", "-")
    optimizer = "sharded" if case.distributed else "whole"
    return [str(case.ranks), case.layout, model, packing, str(case.tokens), case.recompute, optimizer]


def page(results: list[Result], transformers: dict[str, dict[str, float]]) -> str:
    """docs/parity.md."""
    samples = sum(len(parity_reference.samples_of(step)) for step in range(parity_reference.STEPS))
    text = HEAD.format(layers=parity_reference.LAYERS, samples=samples, lr=parity_reference.OPTIMIZER["lr"])

    def line(first: list[str], values: dict[str, float]) -> list[str]:
        return first + [f"{values[name]:.1e}" if name in values else "" for name in COLUMNS]

    head = ["ranks", "layout", "model", "packing", "tokens", "recompute", "optimizer", *COLUMNS.values()]
    rows = [head, ["---"] * len(head)]
    rows += [
        line(["1", "transformers", kind, "rows", "", "", "whole"], values) for kind, values in transformers.items()
    ]
    rows += [line(labels(case), values) for case, values in results]
    rows += [line(["", "bar, float32", *[""] * 5], FLOAT32), line(["", "bar, float64", *[""] * 5], FLOAT64)]
    return text + "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def listed(text: str) -> list[list[str]]:
    """The first columns of the page's cases, without transformers' rows and the bars."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row[:7] for row in rows if row[0].isdigit() and row[1] != "transformers"]


def main(arguments: list[str] | None = None) -> None:
    """Run the suite, and print the page or write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.policy.parity", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/parity.md instead of printing it")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_references(folder)
        results = [result for ranks in (1, 2, 4) for result in run(folder, of_ranks(ranks, CASES))]
        text = page(results, transformers_float32(folder))
    if chosen.write:
        PAGE.write_text(text)
    else:
        print(text)
    wrong: list[Any] = [(labels(case), too) for case, values in results if (too := over_the_bar(case, values))]
    if wrong:
        raise SystemExit(f"over the bars: {wrong}")


if __name__ == "__main__":
    main()
