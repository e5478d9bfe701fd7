"""The study's committed base: the demo's in shape and tokens, half-good at the desk, good at the harder families."""

from pathlib import Path

from pivotrl.demo.hard_families import HARD_FAMILIES
from pivotrl.study.findings import KNOWN

BASE = Path(__file__).resolve().parents[2] / "pivotrl" / "study" / "base"
DEMO = BASE.parents[1] / "demo" / "base"


def test_the_folder_differs_from_the_demos_in_weights_alone():
    names = sorted(path.name for path in DEMO.iterdir())
    assert sorted(path.name for path in BASE.iterdir()) == names
    differing = [name for name in names if (BASE / name).read_bytes() != (DEMO / name).read_bytes()]
    assert differing == ["model.safetensors"]
    assert sum(path.stat().st_size for path in BASE.iterdir()) <= 3_000_000


def test_it_is_half_good_and_knows_the_families():
    from pivotrl.demo.pretrain import Encoder, load_model, measure
    from pivotrl.trajectories.template import ChatTemplate

    ability = measure(load_model(BASE).eval(), Encoder(ChatTemplate(BASE).tokenizer), 30, 50, HARD_FAMILIES)
    assert 0.25 <= ability.turns <= 0.60 and ability.mixed >= 0.5
    assert min(ability.kinds.values()) >= 0.05
    counted = [share for share in ability.families.values() if share >= KNOWN]
    assert len(counted) >= 5 and min(counted) >= 0.8
