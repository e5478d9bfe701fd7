import pytest

from pivotrl.objective.config import ObjectiveConfig


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("clip_low", -0.1),
        ("clip_low", 1.5),
        ("clip_high", -0.1),
        ("clip_high", float("inf")),
        ("dual_clip", 1.0),
        ("beta", -1e-3),
        ("beta", float("nan")),
        ("entropy_bonus", -1.0),
        ("advantage_epsilon", 0.0),
        ("advantage", "gae"),
        ("ratio", "word"),
        ("kl", "k4"),
        ("aggregation", "mean"),
        ("surrogate", "reinforce"),
        ("importance", "clip"),
        ("importance_low", 1.1),
        ("importance_high", 0.9),
        ("clip", 0.2),
    ],
)
def test_nonsense_is_refused_by_key_and_value(key, value):
    with pytest.raises(ValueError) as error:
        ObjectiveConfig(**{key: value})
    assert key in str(error.value)
    assert str(value) in str(error.value)


def test_the_constant_and_its_aggregation_come_together():
    with pytest.raises(ValueError, match="needs tokens_per_sample"):
        ObjectiveConfig(aggregation="constant")
    with pytest.raises(ValueError, match="drop it, or set aggregation to constant"):
        ObjectiveConfig(aggregation="token_mean", tokens_per_sample=64)
    assert ObjectiveConfig(aggregation="constant", tokens_per_sample=64).tokens_per_sample == 64


def test_keys_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="set ratio to token"):
        ObjectiveConfig(surrogate="cispo", ratio="sequence")
    with pytest.raises(ValueError, match="dual_clip to null"):
        ObjectiveConfig(surrogate="cispo", dual_clip=3.0)
    for unused in ({"importance_low": 0.5}, {"importance_high": 2.0}):
        with pytest.raises(ValueError, match="drop it, or set importance to truncate or mask"):
            ObjectiveConfig(**unused)
        assert ObjectiveConfig(importance="mask", **unused)
    assert ObjectiveConfig(**ObjectiveConfig().model_dump()), "a resolved configuration can be read again"


def test_every_field_is_documented():
    assert all(field.description for field in ObjectiveConfig.model_fields.values())
