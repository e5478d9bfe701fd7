"""The theory of docs/theory.md, each closed form against something that knows nothing of it. All float64."""

import itertools

import pytest
import torch

from pivotrl.objective.advantage import group_advantages
from pivotrl.study.categorical import (
    accepted_mass,
    fisher,
    fisher_norm,
    kl,
    natural_gradient,
    path_speed,
    projection,
    tilted,
)
from pivotrl.study.theory import ACCEPTED, REFERENCE, brute_force_norm, measured_speed, panels

BETAS = (0.2, 0.5, 1.0, 3.0)


def draws(count=6, actions=7):
    """(reference, rewards) pairs: real rewards, then binary ones."""
    generator = torch.Generator().manual_seed(0)
    for number in range(count):
        reference_A = torch.randn(actions, generator=generator, dtype=torch.float64).mul(1.5).softmax(-1)
        rewards_A = torch.randn(actions, generator=generator, dtype=torch.float64)
        yield reference_A, (rewards_A > 0).double() if number % 2 else rewards_A


def std(policy_A, rewards_A):
    return ((policy_A @ rewards_A**2) - (policy_A @ rewards_A) ** 2).sqrt().item()


@pytest.mark.parametrize("reference_A, rewards_A", draws())
def test_natural_gradients_norm_is_the_rewards_std(reference_A, rewards_A):
    expected = std(reference_A, rewards_A)
    assert brute_force_norm(reference_A, rewards_A) == pytest.approx(expected, rel=1e-9)
    step_A = natural_gradient(reference_A, rewards_A)
    assert fisher_norm(reference_A, step_A).item() == pytest.approx(expected, rel=1e-9)
    gradient_A = reference_A * (rewards_A - reference_A @ rewards_A)
    torch.testing.assert_close(fisher(reference_A) @ step_A, gradient_A, rtol=1e-12, atol=1e-14)


def test_the_norm_is_that_of_any_parameters():
    """Logits = W x with more parameters than actions: the same length, sqrt(g^T F^+ g)."""
    reference_A, rewards_A = next(draws(1))
    generator = torch.Generator().manual_seed(1)
    mix_AP = torch.randn(7, 12, generator=generator, dtype=torch.float64)
    gradient_P = mix_AP.mT @ (reference_A * (rewards_A - reference_A @ rewards_A))
    fisher_PP = mix_AP.mT @ fisher(reference_A) @ mix_AP
    norm = (gradient_P @ torch.linalg.pinv(fisher_PP, rtol=1e-10, hermitian=True) @ gradient_P).sqrt().item()
    assert norm == pytest.approx(std(reference_A, rewards_A), rel=1e-7)


def test_equal_rewards_give_no_gradient_and_pivots_the_largest():
    policy_A = torch.tensor([0.3, 0.7], dtype=torch.float64)
    assert brute_force_norm(policy_A, torch.ones(2, dtype=torch.float64)) == pytest.approx(0, abs=1e-9)
    right_A = torch.tensor([1.0, 0.0], dtype=torch.float64)
    norms = [brute_force_norm(torch.tensor([p, 1 - p]).double(), right_A) for p in (0.02, 0.25, 0.5, 0.75, 0.98)]
    assert max(norms) == norms[2] == pytest.approx(0.5) and norms[0] < norms[1]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("reference_A, rewards_A", draws(4))
def test_the_optimum_moves_at_std_over_beta_squared(reference_A, rewards_A, beta):
    speed = path_speed(reference_A, rewards_A, beta).item()
    assert speed == pytest.approx(std(tilted(reference_A, rewards_A, beta), rewards_A) / beta**2, rel=1e-9)
    assert speed == pytest.approx(measured_speed(reference_A, rewards_A, beta), rel=1e-5)


@pytest.mark.parametrize("beta", BETAS)
def test_the_tilted_policy_is_the_optimum(beta):
    """Newton's method on the objective itself, from the uniform policy, arrives there."""
    reference_A, rewards_A = next(draws(1))

    def objective(logits_A):
        policy_A = logits_A.softmax(-1)
        return policy_A @ rewards_A - beta * kl(policy_A, reference_A)

    logits_A = torch.zeros(7, dtype=torch.float64)
    for _ in range(300):
        leaf_A = logits_A.clone().requires_grad_()
        (gradient_A,) = torch.autograd.grad(objective(leaf_A), leaf_A)
        policy_A = logits_A.softmax(-1)
        logits_A = logits_A + 0.5 / beta * torch.linalg.pinv(fisher(policy_A), hermitian=True) @ gradient_A
    torch.testing.assert_close(logits_A.softmax(-1), tilted(reference_A, rewards_A, beta), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("beta", BETAS)
def test_functional_optimum_is_the_projection_and_keeps_order(beta):
    right_A = ACCEPTED.double()
    best_A = tilted(REFERENCE, right_A, beta)
    mass = best_A[ACCEPTED].sum()
    assert mass.item() == pytest.approx(accepted_mass(REFERENCE, ACCEPTED, beta).item(), rel=1e-12)
    assert mass > REFERENCE[ACCEPTED].sum()
    torch.testing.assert_close(best_A, projection(REFERENCE, ACCEPTED, mass), rtol=1e-12, atol=0)
    for part in (ACCEPTED, ~ACCEPTED):
        ratio_A = best_A[part] / REFERENCE[part]
        torch.testing.assert_close(ratio_A, ratio_A[:1].expand_as(ratio_A), rtol=1e-12, atol=0)


def test_no_other_policy_of_that_mass_is_nearer():
    generator = torch.Generator().manual_seed(2)
    nearest = kl(projection(REFERENCE, ACCEPTED, 0.8), REFERENCE)
    inside, outside = REFERENCE[ACCEPTED].sum(), REFERENCE[~ACCEPTED].sum()
    bernoulli = 0.8 * (0.8 / inside).log() + 0.2 * (0.2 / outside).log()
    torch.testing.assert_close(nearest, bernoulli, rtol=1e-12, atol=0)
    for _ in range(200):
        other_A = torch.zeros(6, dtype=torch.float64)
        for part, share in ((ACCEPTED, 0.8), (~ACCEPTED, 0.2)):
            other_A[part] = share * torch.randn(3, generator=generator, dtype=torch.float64).softmax(-1)
        assert kl(other_A, REFERENCE) > nearest


def test_a_strict_reward_turns_the_order_round():
    """At the same mass on the accepted actions the strict optimum is farther away, and prefers the expert's wording."""
    strict_A = torch.zeros(6, dtype=torch.float64)
    strict_A[-1] = 1.0
    best_A = tilted(REFERENCE, strict_A, 0.25)
    mass = best_A[ACCEPTED].sum()
    assert kl(best_A, REFERENCE) > 2 * kl(projection(REFERENCE, ACCEPTED, mass), REFERENCE)
    assert REFERENCE[3] > REFERENCE[5] and best_A[3] < best_A[5]


def test_natural_gradient_ascent_without_a_kl_term_walks_the_same_path():
    """Small natural-gradient steps on E[r] from the reference, t long in all, end at the optimum for beta = 1 / t."""
    right_A, logits_A, steps = ACCEPTED.double(), REFERENCE.log(), 4000
    for _ in range(steps):
        logits_A = logits_A + 2.0 / steps * natural_gradient(logits_A.softmax(-1), right_A)
    torch.testing.assert_close(logits_A.softmax(-1), tilted(REFERENCE, right_A, 0.5), rtol=1e-6, atol=0)


@pytest.mark.parametrize("size", [2, 3])
def test_training_follows_this_gradient(size):
    """The mean of `mean_only`'s update over every possible group is (G - 1) / G of the gradient of E[r]."""
    policy_A = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    rewards_A = torch.tensor([0.0, 1.0, 1.0, 0.3], dtype=torch.float64)
    scores_AA = torch.eye(4, dtype=torch.float64) - policy_A
    mean_A = torch.zeros(4, dtype=torch.float64)
    for group in itertools.product(range(4), repeat=size):
        index_G = torch.tensor(group)
        advantage_G = group_advantages(rewards_A[index_G], [0] * size, "mean_only", 1e-6)
        mean_A += policy_A[index_G].prod() * (advantage_G[:, None] * scores_AA[index_G]).mean(0)
    gradient_A = policy_A * (rewards_A - policy_A @ rewards_A)
    torch.testing.assert_close(mean_A, gradient_A * (size - 1) / size, rtol=1e-12, atol=1e-15)


def test_the_plots_curves_and_brute_force_agree():
    norm, _, speed, order = panels()
    for panel, tolerance in ((norm, 1e-9), (speed, 1e-5)):
        exact, measured = (dict(line) for line in panel.series.values())
        assert len(measured) >= 5
        assert all(exact[x] == pytest.approx(y, abs=tolerance) for x, y in measured.items())
    lines = {name: [y for _, y in line] for name, line in order.series.items()}
    assert max(lines["functional: expert's"]) - min(lines["functional: expert's"]) < 1e-12
    assert lines["strict: expert's"][-1] > 0.9 > lines["strict: first"][0]
