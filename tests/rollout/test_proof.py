"""The parts of the proof that need no engine."""

import pytest
import torch

from pivotrl.rollout.proof import TOLERANCES, canary_ids, checksum, compare


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [24, 5])
def test_slices_and_reordered_rows_keep_a_checksum_and_one_flipped_bit_does_not(dtype, columns) -> None:
    tensor = torch.randn(7, columns, generator=torch.Generator().manual_seed(0)).to(dtype)
    whole = checksum(tensor)
    assert whole == checksum(tensor[torch.randperm(7)]) == checksum(tensor[:3]) + checksum(tensor[3:])
    spaced = torch.zeros(7, columns + 9, dtype=dtype)[:, 3 : 3 + columns]  # rows that begin anywhere
    assert checksum(spaced.copy_(tensor)) == whole
    for bit in (0, 15):
        flipped = tensor.clone()
        flipped.view({2: torch.int16, 4: torch.int32}[tensor.element_size()])[3, 2] ^= 1 << bit if bit < 15 else -1
        assert checksum(flipped) != whole


def test_the_canary_is_the_same_everywhere_and_spreads() -> None:
    ids = canary_ids(48, 640)
    assert ids == canary_ids(48, 640) and not set(zip(ids, canary_ids(48, 640, 1), strict=True)) & {(i, i) for i in ids}
    assert len(set(ids)) > 40 and max(ids) > 500 and min(ids) < 100 and max(ids) < 640


def test_float32_allows_no_position_to_be_off() -> None:
    trainer = torch.linspace(-9, -1, 40)
    engine = trainer.clone()
    assert compare(engine, trainer, TOLERANCES["float32"]).ok
    engine[6] += 0.01
    gap = compare(engine, trainer, TOLERANCES["float32"])
    assert not gap.ok and gap.near_tie and (gap.position, gap.above, gap.total) == (7, 1, 40)
    assert abs(gap.engine - gap.trainer) > 0.009


def test_bfloat16_allows_a_quarter_but_no_infinity() -> None:
    trainer = torch.linspace(-9, -1, 40)
    for off, amount, fine in ((10, 1.0, True), (11, 1.0, False), (1, torch.nan, False), (1, -torch.inf, False)):
        engine = trainer.clone()
        engine[:off] += amount
        assert compare(engine, trainer, TOLERANCES["bfloat16"]).ok is fine, (off, amount)


@pytest.mark.parametrize(
    ("off", "amount", "near_tie"), [(0, 0.0, False), (10, 0.5, True), (11, 0.5, False), (1, torch.nan, False)]
)
def test_a_near_tie_explains_a_few_positions_and_no_infinity(off, amount, near_tie) -> None:
    trainer = torch.linspace(-9, -1, 40)
    engine = trainer.clone()
    engine[:off] += amount
    assert compare(engine, trainer, TOLERANCES["float32"]).near_tie is near_tie
