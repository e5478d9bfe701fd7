"""Beliefs that forget: against the Beta-Binomial's definition, and how fading moves them."""

import numpy as np
import pytest

from pivotrl.pivots.beliefs import ANCHOR, PRIOR_STRENGTH, Beliefs
from pivotrl.pivots.posterior import Beta, predictive


def beliefs(memory: float = 0.5) -> Beliefs:
    return Beliefs(np.array([4.0, 0.0, 0.0]), np.array([4.0, 8.0, 0.0]), np.array([True, False, False]), memory)


def test_variance_and_chance_are_the_beta_binomials() -> None:
    one = beliefs()
    one.observe(2, [1.0, 0.0, 1.0], 3)
    a_N, b_N = one.posterior(4)
    for a, b, variance, chance in zip(a_N, b_N, one.variance(4), one.signal_chance(4, 5), strict=True):
        assert variance == pytest.approx(Beta(a, b).signal)
        chances = predictive(Beta(a, b), 5)
        assert chance == pytest.approx(1 - chances[0] - chances[-1])


def test_evidence_fades_and_what_training_does_at_large_moves_the_rest() -> None:
    one = beliefs(memory=0.5)
    assert one.posterior(0)[0].tolist() == [4 + PRIOR_STRENGTH / 2, PRIOR_STRENGTH / 2, PRIOR_STRENGTH / 2]
    one.observe(1, [1.0] * 8, 2)
    a_N, b_N = one.posterior(2)
    rate = (8 + ANCHOR) / (8 + 2 * ANCHOR)
    assert a_N == pytest.approx([4 / 4 + PRIOR_STRENGTH * rate, 8 + PRIOR_STRENGTH * rate, PRIOR_STRENGTH * rate])
    assert b_N[1] == pytest.approx(8 / 4 + PRIOR_STRENGTH * (1 - rate)), "old fails count for a quarter"
    late_N = one.signal_chance(200, 8)
    assert np.ptp(late_N) < 1e-9, "in the end nothing is known of any turn"


def test_never_forgetting_is_the_plain_posterior() -> None:
    one = beliefs(memory=1.0)
    one.observe(0, [1.0, 0.25], 50)
    assert one.passes_N[0] == 5.25 and one.fails_N[0] == 4.75
    assert one.posterior(60)[0][0] == one.posterior(50)[0][0]


def test_a_state_reads_back_to_the_bit_and_another_pools_is_refused() -> None:
    one, other = beliefs(0.9), beliefs(0.9)
    one.observe(1, [1.0, 0.0], 3)
    one.active_N[2] = True
    assert other.from_bytes(one.to_bytes([7, 0.5])) == [7, 0.5]
    for left, right in zip(one.posterior(9), other.posterior(9), strict=True):
        assert left.tobytes() == right.tobytes()
    assert other.active_N.tolist() == [True, False, True] and other.seen_N.tolist() == [0, 3, 0]
    assert other.to_bytes([7, 0.5]) == one.to_bytes([7, 0.5])
    small = Beliefs(np.zeros(2), np.zeros(2), np.ones(2, bool), 0.9)
    with pytest.raises(ValueError, match="it has 3 turns and the run's pool 2"):
        small.from_bytes(one.to_bytes([]))
    with pytest.raises(ValueError, match="not a state of fresh pivots"):
        small.from_bytes(b"PK\x03\x04 torn")
