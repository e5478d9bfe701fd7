"""Checks of an engine that starts empty and of one that sleeps, in one process under torchrun: life_ranks.py FOLDER.

Prints a line for each check: `CHECK name ok`, or `CHECK name` and the stack trace.
"""

import sys
import traceback
from pathlib import Path

import torch
from torch import Tensor

from pivotrl.rollout.config import RolloutConfig
from pivotrl.rollout.engine import Engine, Request
from pivotrl.rollout.landings import PackedLinear
from pivotrl.rollout.receiver import Receiver
from pivotrl.rollout.refit import RefitError, refit
from tests.rollout.engine_ranks import raises, swapped
from tests.rollout.tiny import VOCABULARY, TransformersPolicy, save_llama, save_moe, spread

CONFIG = RolloutConfig(max_model_len=256, kv_cache_gib=0.0625)
PROMPTS = [[5 + 3 * k + j for j in range(4 + 7 * k)] for k in range(3)]
REQUESTS = [Request([token % VOCABULARY for token in ids], 3, k, 1.0, 1.0, 24) for k, ids in enumerate(PROMPTS)]


class Stand:
    """A folder's policy, and two engines of it: one that read the folder, and one that started empty."""

    def __init__(self, folder: Path, save) -> None:
        self.model = save(folder)
        self.policy = TransformersPolicy(folder, self.model)
        self.loaded = Engine(CONFIG, str(folder), "float32", 0)
        self.empty = Engine(CONFIG, str(folder), "float32", 0, empty=True)


def tensors(engine: Engine) -> dict[str, Tensor]:
    """Every parameter and buffer of an engine's model, those of a tied head once."""
    return dict([*engine.model.named_parameters(), *engine.model.named_buffers()])


def assert_alike(one: Engine, other: Engine) -> None:
    ours, theirs = tensors(one), tensors(other)
    assert ours.keys() == theirs.keys() and len(ours) > 20
    assert not [name for name in ours if not torch.equal(ours[name], theirs[name])]
    for engine in (one, other):
        engine.reset_prefix_cache()
    assert one.generate(REQUESTS) == other.generate(REQUESTS), "packed weights are alike, too"


def an_empty_engine_samples_nothing(stand: Stand) -> None:
    for ask in (lambda: stand.empty.generate(REQUESTS), lambda: stand.empty.score([5, 6, 7])):
        with raises(AssertionError, "the engine has no weights: refit first"):
            ask()
    differ = [name for name, one in tensors(stand.empty).items() if not torch.equal(one, tensors(stand.loaded)[name])]
    assert any("norm" in name for name in differ), "its norms are not the folder's"


def what_the_plan_does_not_fill_is_named(stand: Stand) -> None:
    """A parameter of a kind that is not known, a buffer of the checkpoint's, and a tensor that is written in part."""
    engine = stand.empty
    layer = engine.model.model.layers[1]

    def planned_anew() -> None:
        engine.refit_route = None
        refit(stand.policy, engine)

    layer.register_buffer("gain", torch.ones(3))
    with raises(RefitError, "the engine's model.layers.1.gain is of a kind that is not known here"):
        planned_anew()
    layer.register_buffer("gain", torch.ones(3), persistent=False)  # derived by the model, from no checkpoint
    planned_anew()
    del layer.gain
    engine.blank = True

    def half(self: Receiver, move, bounds) -> None:
        """As if a norm were counted as landed and had not been written whole."""
        if move.tensor.endswith("1.input_layernorm.weight"):
            self._open[move.tensor].flatten()[5:] = torch.nan
        landed(self, move, bounds)

    landed = Receiver.landed
    with (
        swapped(Receiver, "landed", half),
        raises(RefitError, "model.layers.1.input_layernorm.weight has NaN after its first refit"),
    ):
        planned_anew()
    assert engine.blank, "it still has no weights"


def a_packed_weight_that_was_not_written_stops_the_run(stand: Stand) -> None:
    """The projection's own copy of the weight keeps what a blank engine has: the canary is NaN."""
    engine = stand.empty
    engine.blank, engine.refit_route = True, None

    packed, times = PackedLinear.close, []

    def close(self: PackedLinear, written: Tensor) -> None:
        if self.name.endswith("layers.1.self_attn.o_proj.weight"):
            times.append(1)
            if len(times) > 1:
                return
        packed(self, written)

    with swapped(PackedLinear, "close", close), raises(RefitError, "the canary says", "nan"):
        refit(stand.policy, engine)
    assert len(times) == 2, "blanked, then written"


def filled_by_a_refit_it_is_what_loads_the_folder(stand: Stand) -> None:
    stand.empty.blank, stand.empty.refit_route = True, None
    assert refit(stand.policy, stand.empty).canary_error < 1e-4
    assert_alike(stand.loaded, stand.empty)
    spread(stand.model, seed=5)  # other weights: the refits of both write everything
    for engine in (stand.loaded, stand.empty):
        refit(stand.policy, engine)
    assert_alike(stand.loaded, stand.empty)


EMPTY = (
    an_empty_engine_samples_nothing,
    what_the_plan_does_not_fill_is_named,
    a_packed_weight_that_was_not_written_stops_the_run,
    filled_by_a_refit_it_is_what_loads_the_folder,
)


def main(folder: str) -> None:
    for name, save, checks in (("moe", save_moe, EMPTY), ("dense", save_llama, EMPTY)):
        (Path(folder) / name).mkdir()
        stand = Stand(Path(folder) / name, save)
        for check in checks:
            try:
                check(stand)
                outcome = "ok"
            except Exception:
                outcome = traceback.format_exc()
            print(f"CHECK {name} {check.__name__} {outcome}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
