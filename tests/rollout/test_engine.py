"""The co-located engine on real vLLM: two ranks under torchrun, checked by every rank (see engine_ranks.py).

Three layouts: two engines of one rank; one tensor-parallel engine of two ranks; and the latter for a dense model with a
tied head, biases and fewer key-value heads than ranks. Qwen2.5 and Mixtral, whose names and biases are other, have one
engine of one rank.
"""

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.launch import REPOSITORY, launch
from tests.rollout.tiny import save_llama, save_mixtral, save_moe, save_qwen2

REFIT = ("refit_moves_everything", "what_is_not_exported_is_named", "a_policy_of_another_shape_writes_nothing")
MOE = (
    "greedy",
    "sampled_log_probs",
    "seeds",
    "groups_are_heard_as_they_finish",
    "every_rank_has_all",
    *REFIT,
    "moe_layout_corruption_stops_the_run",
    "reload_weights_of_vllm_stops_the_run",
    "stale_head_stops_the_run",
    "every_sync_holds_what_is_live_against_the_plan",
    "a_near_tie_is_decided_by_another_canary",
    "one_wrong_tensor_stops_the_run",
)
LAYOUTS: dict[str, tuple[Callable, int, tuple[str, ...]]] = {
    "two engines": (save_moe, 1, (*MOE, "endings", "too_long", "refit_is_quick")),
    "one engine of two ranks": (save_moe, 2, (*MOE, "leaves_no_shared_memory")),
    "dense, tied, of two ranks": (save_llama, 2, ("greedy", "sampled_log_probs", *REFIT, "stale_head_stops_the_run")),
    "Qwen2.5": (save_qwen2, 1, ("greedy", "refit_moves_everything")),
    "Mixtral": (save_mixtral, 1, ("greedy", "refit_moves_everything", "moe_layout_corruption_stops_the_run")),
}
ONE_RANK = ("Qwen2.5", "Mixtral")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> Callable[[str], dict[str, str]]:
    """What each check of a layout said; a layout's ranks are started once, when it is first asked for."""

    @functools.cache
    def run(layout: str) -> dict[str, str]:
        save, tensor, names = LAYOUTS[layout]
        folder: Path = tmp_path_factory.mktemp("model")
        save(folder)
        script = REPOSITORY / "tests/rollout/engine_ranks.py"
        output = launch(1 if layout in ONE_RANK else 2, script, str(folder), str(tensor), *names, timeout=240)
        said = re.split(r"^CHECK (\w+) ", output, flags=re.MULTILINE)[1:]
        return dict(zip(said[::2], said[1::2], strict=True))

    return run


@pytest.mark.parametrize(("layout", "check"), [(layout, name) for layout in LAYOUTS for name in LAYOUTS[layout][2]])
def test_engine(outcomes: Callable[[str], dict[str, str]], layout: str, check: str) -> None:
    said = outcomes(layout)[check]
    assert said.startswith("ok"), said
