"""The parts of the proof that need no engine."""

import torch

from pivotrl.rollout.proof import TOLERANCES, canary_ids, checksum, compare


def test_a_checksum_survives_a_permutation_and_sees_one_flipped_bit() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
        assert checksum(tensor) == checksum(tensor.t()) == checksum(tensor.flatten()[torch.randperm(35)])
        flipped = tensor.clone()
        flipped.view({2: torch.int16, 4: torch.int32}[tensor.element_size()])[3, 2] ^= 1
        assert checksum(flipped) != checksum(tensor)


def test_the_canary_is_the_same_everywhere_and_spreads() -> None:
    ids = canary_ids(48, 640)
    assert ids == canary_ids(48, 640)
    assert len(set(ids)) > 40 and max(ids) > 500 and min(ids) < 100 and max(ids) < 640


def test_float32_allows_no_position_to_be_off() -> None:
    trainer = torch.linspace(-9, -1, 40)
    engine = trainer.clone()
    assert compare(engine, trainer, TOLERANCES["float32"]).ok
    engine[6] += 0.01
    gap = compare(engine, trainer, TOLERANCES["float32"])
    assert not gap.ok and (gap.position, gap.above, gap.total) == (7, 1, 40)
    assert abs(gap.engine - gap.trainer) > 0.009


def test_bfloat16_allows_a_quarter_but_no_infinity() -> None:
    trainer = torch.linspace(-9, -1, 40)
    for off, amount, fine in ((10, 1.0, True), (11, 1.0, False), (1, torch.nan, False), (1, -torch.inf, False)):
        engine = trainer.clone()
        engine[:off] += amount
        assert compare(engine, trainer, TOLERANCES["bfloat16"]).ok is fine, (off, amount)
