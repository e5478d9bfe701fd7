"""Rules of sequential profiling: what they save and lose, and that they decide as the posterior says."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotrl.pivots.config import PivotsConfig
from pivotrl.pivots.distributions import NAMED, turns_of
from pivotrl.pivots.posterior import PRIOR, Beta, predictive
from pivotrl.pivots.select import is_pivot, make_profile
from pivotrl.pivots.sequential import RISK, ROUND, Settled, Worth, chance_of_pivot, rule_of
from pivotrl.pivots.simulation import compare, replay

K, LAMBDA = 16, 0.6


def rule(profiling: str, **keys):
    return rule_of(PivotsConfig(samples=K, max_mean=LAMBDA, profiling=profiling, **keys))


@pytest.mark.parametrize("name", NAMED)
def test_the_two_operating_points_hold_their_bars(name: str) -> None:
    turns = turns_of(name, 4000, 0)
    thorough = compare("thorough", RISK, rule("thorough"), turns, LAMBDA)
    assert thorough.samples_share <= 0.70 and thorough.recall >= 0.97 and thorough.precision >= 0.97, thorough
    thrifty = compare("thrifty", None, rule("thrifty"), turns, LAMBDA)
    assert thrifty.signal_per_sample >= 1.8 and thrifty.recall > 0.5, thrifty
    assert thrifty.samples_share < thorough.samples_share


def test_the_prior_is_the_likeliest_for_the_published_rates() -> None:
    def likelihood(belief: Beta) -> float:
        return sum(NAMED["published"][j] * math.log(chance) for j, chance in enumerate(predictive(belief, 16)))

    best = likelihood(PRIOR)
    for passes, fails in itertools.product((-0.01, 0, 0.01), (-0.04, 0, 0.04)):
        assert likelihood(Beta(PRIOR.passes + passes, PRIOR.fails + fails)) <= best + 1e-6


def test_random_turns_have_the_share_without_signal_that_the_paper_found() -> None:
    shares = NAMED["random_turns"]
    assert shares[0] + shares[16] == pytest.approx(0.71) and sum(shares.values()) == pytest.approx(1)
    assert turns_of("published", 50, 3) == turns_of("published", 50, 3) != turns_of("published", 50, 4)


def test_fixed_draws_all_at_once() -> None:
    assert rule("fixed").more([]) == K and rule("fixed").more([0.0] * K) == 0


def test_the_chance_of_a_pivot_is_what_drawing_gives() -> None:
    settled, noise = Settled(8, 0.6), random.Random(0)
    for rewards in ([0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]):
        belief = PRIOR.after(sum(rewards), len(rewards))
        found, draws = 0, 8000
        for _ in range(draws):
            p = noise.betavariate(belief.passes, belief.fails)
            whole = rewards + [float(noise.random() < p) for _ in range(8 - len(rewards))]
            found += is_pivot(make_profile("t", whole, [""] * 8, "p", {}), 0.6)
        said = chance_of_pivot(settled, sum(rewards), len(rewards), rewards[0] if len(set(rewards)) == 1 else None)
        assert abs(found / draws - said) < 4 * math.sqrt(0.25 / draws), rewards


@pytest.mark.parametrize("size, limit, thrift", [(5, 0.6, 1.0), (6, 0.9, 0.5), (6, 0.4, 0.8)])
def test_thrifty_is_the_best_of_all_rules(size: int, limit: float, thrift: float) -> None:
    """Against every rule over the counts that cannot be told from another by its value: by brute force."""
    worth = Worth(size, limit, thrift)
    price = thrift * worth.best_rate
    states = [(s, n) for n in range(ROUND, size, ROUND) for s in range(n + 1)]

    def value(goes_on: set[tuple[int, int]], passes: int = 0, count: int = 0) -> tuple[float, float]:
        belief = PRIOR.after(passes, count)
        if count and (count == size or (passes, count) not in goes_on):
            return (belief.signal if 0 < passes < count and passes < limit * count else 0.0), 0.0
        draws = min(ROUND, size - count)
        parts = [value(goes_on, passes + j, count + draws) for j in range(draws + 1)]
        chances = predictive(belief, draws)
        signal, spent = (sum(c * part[i] for c, part in zip(chances, parts, strict=True)) for i in (0, 1))
        return signal, spent + draws

    found = [value({s for s, bit in zip(states, bits, strict=True) if bit}) for bits in _bits(len(states))]
    assert max(signal / spent for signal, spent in found) == pytest.approx(worth.best_rate)
    chosen = {(s, n) for s, n in states if worth.more([1.0] * s + [0.0] * (n - s)) > 0}
    signal, spent = value(chosen)
    assert signal - price * spent == pytest.approx(max(a - price * b for a, b in found))


def _bits(number: int):
    return itertools.product((False, True), repeat=number)


rewards_of_a_turn = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=K, max_size=K)


@given(rewards_of_a_turn, st.sampled_from(["thorough", "thrifty"]), st.sampled_from([0.3, 0.6, 1.0]))
def test_any_rewards_come_to_an_end_and_the_order_within_the_rounds_does_not_matter(rewards, profiling, limit) -> None:
    one = rule_of(PivotsConfig(samples=K, max_mean=limit, profiling=profiling))
    count = 0
    assert one.more([]) > 0
    while more := one.more(rewards[:count]):
        assert one.more(rewards[:count][::-1]) == more
        count += more
        assert count <= K
    assert count >= 2
    if count < K and profiling == "thrifty":
        assert one.more(rewards[:count]) == 0


def test_equal_graded_rewards_are_no_pivot_and_differing_ones_may_be() -> None:
    settled, worth = Settled(K, LAMBDA), Worth(K, LAMBDA)
    assert settled.more([0.5] * 4) > 0, "another reward may still come"
    assert settled.more([0.0, 0.25] * 4) == 0 and worth.more([0.0, 0.25]) == 0
    assert settled.more([0.9] * 12) == 0, "far above lambda"
    assert worth.more([0.5, 0.5]) == worth.more([0.0, 0.0]) and worth.more([0.9, 0.9]) == worth.more([1.0, 1.0])


def test_a_replay_of_the_fixed_rule_changes_nothing() -> None:
    turns = turns_of("published", 200, 0)
    drawn, kept, _ = replay(rule("fixed"), turns, LAMBDA)
    assert drawn == 200 * K
    assert kept == [is_pivot(make_profile("t", one, [""] * K, "p", {}), LAMBDA) for one in turns]
    with pytest.raises(ValueError, match="wants 2 samples and 1 are recorded"):
        replay(rule("thrifty"), [[1.0]], LAMBDA)
