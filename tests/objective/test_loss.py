"""Legend: S samples, T response tokens."""

import itertools

import pytest
import torch

from pivotrl.objective import loss, metrics, terms
from pivotrl.objective.config import ObjectiveConfig
from pivotrl.objective.loss import ResponseTokens, global_denominator, policy_loss
from tests.objective.mutants import mutant

# With clips .2 / .3 and dual clip 3: below the low bound, inside on both sides of 1, above the high and the dual bound.
LOG_RATIOS = (-0.7, -0.1, 0.1, 0.6, 1.5)
ADVANTAGES = (1.3, -0.7, 0.0)

CONFIGS = [
    ObjectiveConfig(
        ratio=ratio,
        clip_low=0.2,
        clip_high=0.3,
        dual_clip=dual_clip,
        kl=kl,
        beta=beta,
        aggregation=aggregation,
        tokens_per_sample=6 if aggregation == "constant" else None,
        entropy_bonus=entropy_bonus,
    )
    for ratio, dual_clip, (kl, beta), (aggregation, entropy_bonus) in itertools.product(
        ("token", "sequence"),
        (None, 3.0),
        (("k1", 0.3), ("k2", 0.3), ("k3", 0.3), ("k3", 0.0)),
        (("token_mean", 0.1), ("sequence_mean", 0.0), ("constant", 0.1)),
    )
]
WEIGHED_CONFIGS = [
    ObjectiveConfig(
        ratio=ratio,
        surrogate=surrogate,
        clip_low=0.2,
        clip_high=0.3,
        beta=0.3,
        entropy_bonus=0.1,
        aggregation=aggregation,
        importance=importance,
        **({} if importance == "none" else {"importance_low": 0.8, "importance_high": 1.1}),
    )
    for (ratio, surrogate), importance, aggregation in itertools.product(
        (("token", "clip"), ("sequence", "clip"), ("token", "cispo")),
        ("none", "truncate", "mask"),
        ("token_mean", "sequence_mean"),
    )
]
CONFIGS += WEIGHED_CONFIGS


def make_batch(seed: int = 0, dtype: torch.dtype = torch.float64) -> ResponseTokens:
    """Every region of the ratio under every sign of the advantage; samples of 1 to 4 tokens, some with a masked NaN."""
    generator = torch.Generator().manual_seed(seed)
    rows = list(itertools.product(ADVANTAGES, LOG_RATIOS)) * 2
    lengths_S = torch.tensor([1 + i % 4 for i in range(len(rows))])
    sample_index_T = torch.arange(len(rows)).repeat_interleave(lengths_S)

    def noise(scale: float) -> torch.Tensor:
        return scale * (2 * torch.rand(len(sample_index_T), generator=generator, dtype=torch.float64) - 1)

    old_logp_T = -1.5 + noise(1.0)
    logp_T = old_logp_T + torch.tensor([rows[i][1] for i in sample_index_T], dtype=torch.float64) + noise(0.05)
    mask_T = torch.ones(len(sample_index_T), dtype=torch.bool)
    mask_T[(lengths_S.cumsum(0) - 1)[lengths_S == 4]] = False

    def spoil(values_T: torch.Tensor) -> torch.Tensor:
        return values_T.masked_fill(~mask_T, float("nan")).to(dtype)

    sampler_logp_T = old_logp_T + noise(0.4)
    sampler_logp_T[[3, 11]] = torch.tensor([float("-inf"), float("nan")], dtype=torch.float64)

    return ResponseTokens(
        logp_T=spoil(logp_T).requires_grad_(),
        sample_index_T=sample_index_T,
        advantages_S=torch.tensor([advantage for advantage, _ in rows], dtype=dtype),
        old_logp_T=spoil(old_logp_T),
        reference_logp_T=spoil(logp_T + noise(0.5)),
        sampler_logp_T=spoil(sampler_logp_T),
        entropy_T=spoil(1.0 + noise(0.5)).requires_grad_(),
        mask_T=mask_T,
    )


def select(batch: ResponseTokens, samples: list[int]) -> ResponseTokens:
    """The micro-batch of these samples, in this order."""
    tokens = torch.cat([(batch.sample_index_T == sample).nonzero().flatten() for sample in samples])
    lengths = [int((batch.sample_index_T == sample).sum()) for sample in samples]
    return ResponseTokens(
        sample_index_T=torch.arange(len(samples)).repeat_interleave(torch.tensor(lengths)),
        advantages_S=batch.advantages_S[samples],
        **{
            name: getattr(batch, name)[tokens]
            for name in ("logp_T", "old_logp_T", "reference_logp_T", "sampler_logp_T", "entropy_T", "mask_T")
        },
    )


def lengths_of(batch: ResponseTokens) -> list[int]:
    return [int(batch.mask_T[batch.sample_index_T == i].sum()) for i in range(len(batch.advantages_S))]


def textbook(config: ObjectiveConfig, batch: ResponseTokens) -> torch.Tensor:
    """The loss of a whole batch, sample by sample as the papers write it."""
    samples = []
    for i, advantage in enumerate(batch.advantages_S):
        mine = (batch.sample_index_T == i) & batch.mask_T
        logp, old, reference = batch.logp_T[mine], batch.old_logp_T[mine], batch.reference_logp_T[mine]
        ratio = (logp - old).exp()
        if config.ratio == "sequence":
            ratio = ratio.prod().pow(1 / len(ratio)).expand_as(ratio)
        surrogate = torch.max(-advantage * ratio, -advantage * ratio.clip(1 - config.clip_low, 1 + config.clip_high))
        if config.surrogate == "cispo":
            surrogate = -advantage * ratio.clip(1 - config.clip_low, 1 + config.clip_high).detach() * logp
        if config.dual_clip is not None and advantage < 0:
            surrogate = torch.min(surrogate, -advantage * torch.full_like(ratio, config.dual_clip))
        policy_over_reference = (logp - reference).exp()
        kl = {
            "k1": policy_over_reference.log(),
            "k2": policy_over_reference.log() ** 2 / 2,
            "k3": 1 / policy_over_reference - 1 + policy_over_reference.log(),
        }[config.kl]
        sampled = batch.sampler_logp_T[mine]
        weight = {
            "none": lambda w: torch.ones_like(w),
            "truncate": lambda w: w.clip(config.importance_low, config.importance_high),
            "mask": lambda w: w * (w >= config.importance_low) * (w <= config.importance_high),
        }[config.importance]((old - sampled.nan_to_num(0, 0, 0)).exp())
        weight = weight * sampled.isfinite()
        samples.append(weight * (surrogate + config.beta * kl - config.entropy_bonus * batch.entropy_T[mine]))
    if config.aggregation == "token_mean":
        return torch.cat(samples).mean()
    if config.aggregation == "sequence_mean":
        return torch.stack([tokens.mean() for tokens in samples]).mean()
    return torch.stack([tokens.sum() / config.tokens_per_sample for tokens in samples]).mean()


def gradients(value: torch.Tensor, batch: ResponseTokens) -> tuple[torch.Tensor, torch.Tensor]:
    leaves = (batch.logp_T, batch.entropy_T)
    return torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)


def check_textbook(policy_loss) -> None:
    """Loss, autograd's gradient and the closed form against the papers' formulas, for every config and branch."""
    batch = make_batch()
    for config in CONFIGS:
        result = policy_loss(config, batch, global_denominator(config, lengths_of(batch)))
        expected = textbook(config, batch)
        g_T, h_T = gradients(expected, batch)
        autograd_g_T, autograd_h_T = gradients(result.loss, batch)
        for actual, wanted in (
            (result.loss, expected),
            (result.g_T, g_T),
            (result.h_T, h_T),
            (autograd_g_T, g_T),
            (autograd_h_T, h_T),
        ):
            torch.testing.assert_close(
                actual, wanted, rtol=1e-12, atol=1e-14, msg=lambda text, c=config: f"{c}: {text}"
            )


def check_micro_batches(policy_loss) -> None:
    """Micro-batches of 1 or 7 samples in shuffled order add up to the loss, gradient and metrics of the whole."""
    batch = make_batch()
    order = torch.randperm(len(batch.advantages_S), generator=torch.Generator().manual_seed(1)).tolist()
    for config in CONFIGS:
        denominator = global_denominator(config, lengths_of(batch))
        whole = policy_loss(config, batch, denominator)
        whole_gradients, whole_means = gradients(whole.loss, batch), metrics.mean_metrics([whole.metrics])
        for size in (1, 7):
            cuts = [order[start : start + size] for start in range(0, len(order), size)]
            parts = [policy_loss(config, select(batch, cut), denominator) for cut in cuts]
            total = sum(part.loss for part in parts)
            torch.testing.assert_close(total, whole.loss, rtol=1e-12, atol=1e-14)
            for actual, expected in zip(gradients(total, batch), whole_gradients, strict=True):
                torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)
            assert metrics.mean_metrics([part.metrics for part in parts]) == pytest.approx(whole_means, rel=1e-12)


def test_equals_the_textbook_and_its_gradient():
    check_textbook(policy_loss)


def test_the_cut_into_micro_batches_does_not_matter():
    check_micro_batches(policy_loss)


# Clip bounds swapped, clip on the wrong side, one-sided clip made two-sided, no dual clip, slope past each bound; KL's
# sign, k2 not halved, k3's slope. Then: sequence ratio as a sum; entropy's sign in value and in h; KL missing from g;
# the mean over a sample not taken; masked tokens read.
TERM_MUTANTS = [
    ("ratio_T.clamp(1 - clip_low, dual_clip)", "ratio_T.clamp(1 - clip_high, dual_clip)"),
    ("ratio_T.clamp(max=1 + clip_high)", "ratio_T.clamp(max=1 + clip_low)"),
    ("negative_T = advantage_T < 0", "negative_T = advantage_T > 0"),
    ("ratio_T.clamp(max=1 + clip_high)", "ratio_T.clamp(1 - clip_low, 1 + clip_high)"),
    ("ratio_T.clamp(1 - clip_low, dual_clip)", "ratio_T.clamp(1 - clip_low)"),
    ("flat_T = at_low_T | ", "flat_T = "),
    ("| at_high_T |", "|"),
    ("| at_dual_T |", "|"),
    ("(reference_logp_T - logp_T).clamp", "(logp_T - reference_logp_T).clamp"),
    ("x_T.square() / 2", "x_T.square()"),
    ("-x_T.detach().expm1()", "x_T.detach().expm1()"),
    ("ratio_T.clamp(1 - clip_low, 1 + clip_high)", "ratio_T"),
    ("slope_T * logp_T, slope_T", "slope_T * log_ratio_T, slope_T"),
    ("slope_T * logp_T, slope_T", "slope_T * logp_T, slope_T * ratio_T"),
    ("weight_T.clamp(low, high)", "weight_T.clamp(max=high)"),
    ("weight_T.clamp(low, high)", "weight_T"),
    ("weight_T.masked_fill(outside_T, 0.0)", "weight_T.clamp(low, high)"),
    ('if importance == "mask" else', 'if importance != "mask" else'),
]
LOSS_MUTANTS = [
    ("_sum_over_sample(log_ratio_T, batch) / num_tokens_T", "_sum_over_sample(log_ratio_T, batch)"),
    ("value_T = value_T - config.entropy_bonus", "value_T = value_T + config.entropy_bonus"),
    ("h_T=weight_T * -config.entropy_bonus", "h_T=weight_T * config.entropy_bonus"),
    ("g_T = g_T + weight_T * config.beta * kl_slope_T", "pass"),
    ("g_T = g_T + weight_T * config.beta * kl_slope_T", "g_T = g_T + config.beta * kl_slope_T"),
    ("(_sum_over_sample(g_T, batch) / num_tokens_T).masked_fill(~mask_T, 0.0)", "g_T"),
    ("weight_T.masked_fill(~kept_T, 0.0)", "weight_T"),
    (
        "log_weight_T = old_logp_T - torch.where(kept_T, batch.sampler_logp_T, old_logp_T)",
        "log_weight_T = torch.where(kept_T, batch.sampler_logp_T, old_logp_T) - old_logp_T",
    ),
    ("weight_T = weight_T / num_tokens_T", "pass"),
    ("logp_T = batch.logp_T.masked_fill(~mask_T, 0.0)", "logp_T = batch.logp_T"),
]


@pytest.mark.parametrize(("old", "new"), TERM_MUTANTS)
def test_the_textbook_catches_wrong_terms(old, new, monkeypatch):
    wrong = mutant(terms, old, new)
    monkeypatch.setattr(loss, "policy_term", wrong.policy_term)
    monkeypatch.setattr(loss, "kl_term", wrong.kl_term)
    monkeypatch.setattr(loss, "cispo_term", wrong.cispo_term)
    monkeypatch.setattr(loss, "importance_weight", wrong.importance_weight)
    with pytest.raises(AssertionError):
        check_textbook(policy_loss)


@pytest.mark.parametrize(("old", "new"), LOSS_MUTANTS)
def test_the_textbook_catches_a_wrong_loss(old, new):
    with pytest.raises(AssertionError):
        check_textbook(mutant(loss, old, new).policy_loss)


def test_micro_batches_catch_a_local_denominator():
    wrong = mutant(loss, "trust.weight_T / denominator", "trust.weight_T / mask_T.sum()")
    with pytest.raises(AssertionError):
        check_micro_batches(wrong.policy_loss)


# CISPO holds its ratio constant, so that its gradient is not the slope of its value.
STEADY_CONFIGS = [config for config in CONFIGS if config.surrogate == "clip"]


def describe(config: ObjectiveConfig) -> str:
    kind = f"{config.ratio}-{config.dual_clip}-{config.kl}-{config.beta}"
    return f"{kind}-{config.aggregation}-{config.importance}"


@pytest.mark.parametrize("config", STEADY_CONFIGS, ids=describe)
def test_gradcheck_through_every_branch(config):
    whole = make_batch()
    batch = select(whole, list(range(15)))
    seen = policy_loss(config, batch, 1.0).metrics
    for branch in ("clip_low_share", "clip_high_share", *(["dual_clip_share"] if config.dual_clip else [])):
        assert 0 < seen[branch][0] < seen[branch][1]

    def value(logp_T, entropy_T):
        fields = {name: getattr(batch, name) for name in ("old_logp_T", "reference_logp_T", "sampler_logp_T", "mask_T")}
        tokens = ResponseTokens(logp_T, batch.sample_index_T, batch.advantages_S, entropy_T=entropy_T, **fields)
        return policy_loss(config, tokens, 10.0).loss

    # Finite differences cannot step through the NaNs of masked tokens, so those get numbers here.
    leaves = [x.detach().nan_to_num(1.0).requires_grad_() for x in (batch.logp_T, batch.entropy_T)]
    assert torch.autograd.gradcheck(value, leaves)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_without_old_log_probs_the_ratio_is_one_with_gradient(ratio):
    """The first update of a batch: g = -A w, the same as with old log-probs equal to the current ones."""
    whole = make_batch()
    config = ObjectiveConfig(ratio=ratio)
    fields = {"sample_index_T": whole.sample_index_T, "advantages_S": whole.advantages_S, "mask_T": whole.mask_T}
    first = policy_loss(config, ResponseTokens(whole.logp_T, **fields), 50.0)
    same = policy_loss(config, ResponseTokens(whole.logp_T, old_logp_T=whole.logp_T.detach(), **fields), 50.0)
    expected_T = -whole.advantages_S[whole.sample_index_T] * whole.mask_T / 50
    for result in (first, same):
        torch.testing.assert_close(torch.autograd.grad(result.loss, whole.logp_T)[0], expected_T, rtol=1e-12, atol=0)
        torch.testing.assert_close(result.g_T, expected_T, rtol=1e-12, atol=0)
    assert metrics.mean_metrics([first.metrics])["ratio"] == 1.0


def test_float32_is_as_good_as_its_rounding():
    exact, batch = make_batch(), make_batch(dtype=torch.float32)
    for config in CONFIGS:
        expected, actual = policy_loss(config, exact, 60.0), policy_loss(config, batch, 60.0)
        assert actual.g_T.dtype == torch.float32
        assert ((actual.g_T - expected.g_T).norm() / expected.g_T.norm()).item() < 1e-6


def test_one_far_token_does_not_overflow():
    config = ObjectiveConfig(beta=0.1)
    logp_T = torch.tensor([-0.1, -0.1], requires_grad=True)
    far = {"old_logp_T": torch.tensor([-500.0, -0.1]), "reference_logp_T": torch.tensor([500.0, -0.1])}
    result = policy_loss(config, ResponseTokens(logp_T, torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]), **far), 2.0)
    (g_T,) = torch.autograd.grad(result.loss, logp_T)
    assert result.loss.isfinite()
    assert g_T.tolist() == result.g_T.tolist() == [0.0, 0.5]


def test_metrics_are_means_over_the_tokens_that_count():
    batch = make_batch()
    config = ObjectiveConfig(clip_low=0.2, clip_high=0.3, dual_clip=3.0)
    means = metrics.mean_metrics([policy_loss(config, batch, 1.0).metrics])
    keep = batch.mask_T
    ratio = (batch.logp_T - batch.old_logp_T).exp()[keep].tolist()
    advantage = batch.advantages_S[batch.sample_index_T][keep].tolist()
    pairs, num_tokens = list(zip(ratio, advantage, strict=True)), len(ratio)
    sampled = keep & batch.sampler_logp_T.isfinite()
    gap = (batch.old_logp_T - batch.sampler_logp_T)[sampled].abs().tolist()
    policy_over_reference = (batch.logp_T - batch.reference_logp_T)[keep].exp()
    assert means == pytest.approx(
        {
            "ratio": sum(ratio) / num_tokens,
            "clip_low_share": sum(r < 0.8 and a < 0 for r, a in pairs) / num_tokens,
            "clip_high_share": sum(r > 1.3 and a > 0 for r, a in pairs) / num_tokens,
            "dual_clip_share": sum(r > 3 and a < 0 for r, a in pairs) / num_tokens,
            "kl_old": (torch.tensor(ratio) - 1 - torch.tensor(ratio).log()).mean().item(),
            "kl_reference": (1 / policy_over_reference - 1 + policy_over_reference.log()).mean().item(),
            "entropy": batch.entropy_T[keep].mean().item(),
            "sampler_gap": sum(gap) / (num_tokens - 2),
            "sampler_error": torch.tensor(gap).exp().mean().item(),
            "sampler_dropped_share": 2 / num_tokens,
        },
        rel=1e-5,
    )


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_kl_of_one_far_token_is_held_and_gives_no_gradient(estimator):
    logp_T = torch.tensor([-30.0, -1.0, 0.0], dtype=torch.float64, requires_grad=True)
    value_T, slope_T = terms.kl_term(estimator, logp_T, torch.tensor([0.0, -1.5, -30.0], dtype=torch.float64))
    (gradient_T,) = torch.autograd.grad(value_T.sum(), logp_T)
    assert value_T[[0, 2]].abs().tolist() == [terms.MAX_KL] * 2
    assert 0 < value_T[1] < 1
    torch.testing.assert_close(gradient_T, slope_T, rtol=1e-12, atol=0)
    assert slope_T[[0, 2]].tolist() == [0.0, 0.0]


def test_a_batch_whose_sampler_log_probs_are_all_lost_trains_nothing_and_says_so():
    logp_T = torch.zeros(2, requires_grad=True)
    lost = torch.full((2,), float("nan"))
    batch = ResponseTokens(logp_T, torch.tensor([0, 1]), torch.tensor([1.0, -1.0]), sampler_logp_T=lost)
    result = policy_loss(ObjectiveConfig(), batch, 2.0)
    means = metrics.mean_metrics([result.metrics])
    assert result.g_T.tolist() == torch.autograd.grad(result.loss, logp_T)[0].tolist() == [0.0, 0.0]
    assert means["sampler_dropped_share"] == 1.0
    assert "sampler_gap" not in means


def test_an_empty_micro_batch_still_has_a_backward_pass():
    logp_T = torch.zeros(0, requires_grad=True)
    result = policy_loss(
        ObjectiveConfig(), ResponseTokens(logp_T, torch.zeros(0, dtype=torch.int64), torch.zeros(0)), 8.0
    )
    result.loss.backward()
    assert result.loss.item() == 0


def test_denominators():
    lengths = [3, 1, 4]
    assert global_denominator(ObjectiveConfig(), lengths) == 8
    assert global_denominator(ObjectiveConfig(aggregation="sequence_mean"), lengths) == 3
    assert global_denominator(ObjectiveConfig(aggregation="constant", tokens_per_sample=10), lengths) == 30
    with pytest.raises(ValueError, match="got 0"):
        global_denominator(ObjectiveConfig(), [])
    with pytest.raises(ValueError, match="got 2, the shortest of 0"):
        global_denominator(ObjectiveConfig(), [3, 0])


def test_bad_input_names_the_argument():
    one, two = torch.zeros(1), torch.zeros(2)
    index, advantages = torch.zeros(2, dtype=torch.int64), torch.zeros(1)
    with pytest.raises(ValueError, match=r"old_logp_T must be \[2\] as logp_T is, got \[1\]"):
        ResponseTokens(two, index, advantages, old_logp_T=one)
    with pytest.raises(ValueError, match="float32 or float64"):
        ResponseTokens(two.bfloat16(), index, advantages)
    whole = {"logp_T": two, "sample_index_T": index, "advantages_S": advantages}
    for wrong, message in (
        ({"sample_index_T": index.float()}, "sample_index_T must be torch.int64 on cpu, got torch.float32 on cpu"),
        ({"sample_index_T": index + 1}, r"sample_index_T must be in \[0, 1\), the samples, got \[1, 1\]"),
        ({"sample_index_T": index - 1}, r"sample_index_T must be in \[0, 1\), the samples, got \[-1, -1\]"),
        ({"mask_T": two}, "mask_T must be torch.bool on cpu, got torch.float32 on cpu"),
        ({"old_logp_T": two.double()}, "old_logp_T must be torch.float32 on cpu, got torch.float64 on cpu"),
        ({"entropy_T": two.to("meta")}, "entropy_T must be torch.float32 on cpu, got torch.float32 on meta"),
        ({"advantages_S": torch.zeros(1, 1)}, r"advantages_S must be floating point \[S\] on cpu, got .* \[1, 1\]"),
        ({"advantages_S": index[:1]}, r"advantages_S must be floating point \[S\] on cpu, got torch.int64"),
    ):
        with pytest.raises(ValueError, match=message):
            ResponseTokens(**(whole | wrong))
    batch = ResponseTokens(two, index, advantages)
    with pytest.raises(ValueError, match="needs reference_logp_T"):
        policy_loss(ObjectiveConfig(beta=0.1), batch, 1.0)
    with pytest.raises(ValueError, match="needs entropy_T"):
        policy_loss(ObjectiveConfig(entropy_bonus=0.1), batch, 1.0)
    with pytest.raises(ValueError, match="needs sampler_logp_T"):
        policy_loss(ObjectiveConfig(importance="mask"), batch, 1.0)
    for denominator in (0.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="denominator must be positive and finite"):
            policy_loss(ObjectiveConfig(), batch, denominator)
