"""What works, what fits, and how a plan says that something does not."""

import pytest

from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import GIB, H100, H200
from pivotrl.planning.layouts import rank_layouts
from pivotrl.planning.plan import Plan, make_plan, seconds_of
from pivotrl.planning.workload import Lengths
from tests.planning.sizes import RANKS, cluster, model, run

LENGTHS = Lengths()


def planned(*overrides: str, ranks: int = RANKS, lengths: Lengths = LENGTHS) -> Plan:
    return make_plan(run(*overrides), model(), ranks, lengths, Assumptions())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("parallel.expert=48", "parallel.expert is 48, which does not divide num_experts 128: use 1, 2, 4, 8"),
        ("parallel.expert=7", r"num_experts 128: use 1, 2, 4, 8, 16, 32 \(on 32 ranks\)"),
        ("parallel.tensor=8", "parallel.tensor is 8, which does not divide num_key_value_heads 4"),
        ("parallel.pipeline=5", "parallel.pipeline is 5, which does not divide num_hidden_layers 48"),
        ("parallel.pipeline=16", r"needs 64 ranks or a multiple of it, and 32 were started"),
        ("rollout.tensor=3", "rollout.tensor is 3, which does not divide the 32 ranks"),
        ("rollout.max_model_len=300000", "rollout.max_model_len is 300000, but the model has 262144 positions"),
        ("rollout.kv_cache_gib=0.5", "rollout.kv_cache_gib is 0.5, which holds 21,845 tokens"),
        ("rollout.max_new_tokens=800", "--response-tokens 1000 is above rollout.max_new_tokens, 800"),
        ("rollout.max_model_len=5000", "--prompt-tokens 4500 and --response-tokens 1000 together"),
        ("model.dtype=float32", "model.dtype is float32, and the plan knows"),
    ],
)
def test_what_cannot_work_names_the_number_that_breaks_it(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        planned(override)


def test_a_run_that_does_not_fit_says_what_it_lacks_and_a_remedy_that_works() -> None:
    plan = planned()
    assert not plan.fits(H100)
    assert plan.fits(H200)
    said = plan.refusal(H100)
    assert "GiB in train, an H100 has 79.6. Largest parts: kv cache 24.0" in said
    remedy = said.rpartition("It would fit with ")[2].replace(" ", "=")
    assert planned(remedy).fits(H100)
    key, _, gib = remedy.partition("=")
    assert not planned(f"{key}={int(gib) + 1}").fits(H100)


def test_what_no_cache_makes_room_for_names_the_largest_part() -> None:
    said = planned("rollout.kv_cache_gib=8", ranks=8).refusal(H100)
    assert "Largest parts: optimizer 42.6, gradients 14.9, engine 14.2. " in said
    assert said.endswith("The first shrinks with more nodes, or optimizer.offload")


def test_the_cache_alone_is_what_an_engine_that_sleeps_gives_back() -> None:
    awake, asleep = planned().memory.phases, planned("rollout.sleep=true").memory.phases
    assert awake["train"].kv_cache == 24 * GIB
    assert asleep["train"].kv_cache == asleep["train"].engine == 0
    assert asleep["rollout"] == awake["rollout"]
    assert asleep["refit"].engine and not asleep["refit"].kv_cache


def test_offload_empties_the_gpu_while_the_engine_samples_and_only_then() -> None:
    kept, away = planned().memory.phases, planned("training.offload=true").memory.phases
    assert away["rollout"].gradients == away["rollout"].optimizer == 0
    assert away["refit"].gradients == away["refit"].optimizer == 0, "it goes before the engine wakes"
    assert away["train"] == kept["train"] and away["save"] == kept["save"]
    slept = planned("training.offload=true", "rollout.sleep=true").memory.phases
    assert slept["save"].engine == slept["save"].kv_cache == 0 < slept["save"].optimizer


def test_the_reference_is_held_where_it_is_used() -> None:
    plain, kl = planned().memory.phases, planned("objective.beta=0.1").memory.phases
    assert "log-prob" not in plain
    assert kl["train"].weights == 2 * plain["train"].weights
    assert kl["log-prob"].weights == 3 * plain["train"].weights


def test_parts_of_memory_follow_what_they_are_of() -> None:
    base = planned().memory.phases["train"]
    assert planned("optimizer.precision_aware=true").memory.phases["train"].optimizer == base.optimizer * 8 // 12
    assert planned("optimizer.offload=0.5").memory.phases["train"].optimizer == pytest.approx(base.optimizer / 2, abs=1)
    assert planned(ranks=64).memory.phases["train"].optimizer == pytest.approx(base.optimizer / 2, rel=1e-3)
    assert planned("rollout.tensor=8").memory.phases["train"].engine == pytest.approx(base.engine / 2, rel=0.01)
    selective = planned("model.recompute=selective").memory.phases["train"].activations
    none = planned("model.recompute=none").memory.phases["train"].activations
    assert base.activations < selective < none


def test_layouts_are_ranked_and_each_can_be_asked_for() -> None:
    config, assumed = run("rollout.kv_cache_gib=12"), Assumptions()
    fit, rest = rank_layouts(config, model(), [cluster()], LENGTHS, assumed)["H100"]
    assert fit
    assert rest
    assert [one.seconds for one in fit] == sorted(one.seconds for one in fit)
    assert all(one.plan.fits(H100) for one in fit)
    assert not any(one.plan.fits(H100) for one in rest)
    first = planned("rollout.kv_cache_gib=12", *fit[0].overrides.split())
    assert first.memory == fit[0].plan.memory
    assert seconds_of(first, cluster(), assumed).total == fit[0].seconds
