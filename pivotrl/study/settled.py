"""The base of the second contest: a model on which PivotRL has trained for a while, so that most turns are settled."""

import json
from pathlib import Path

from pivotrl.policy.checkpoint_rotation import MANIFEST
from pivotrl.study.plan import QUICK, QUICK_SETTLED, SETTLED, Job, Sizes
from pivotrl.study.results import Results
from pivotrl.trajectories.store import write_json

SOURCE = "made_from.json"


def is_settled(sizes: Sizes) -> bool:
    """Whether a study is the second contest."""
    return sizes in (SETTLED, QUICK_SETTLED)


def settled_step(sizes: Sizes) -> int:
    """The step after which it is taken: the middle one of PivotRL's points."""
    points = first_sizes(sizes).points["pivots"]
    return points[len(points) // 2]


def first_sizes(sizes: Sizes) -> Sizes:
    """Sizes of the study whose model it is."""
    return QUICK if sizes == QUICK_SETTLED else Sizes()


def export_base(first: Path, sizes: Sizes, out: Path) -> None:
    """Write the base as a Hugging Face folder, where it is not there yet; else hold it against the first study.

    Args:
        first: folder of the first study.

    Raises:
        ValueError: that study is not done, or it is another one than the base's.
    """
    from pivotrl.policy.convert import to_hf

    results = Results(first, first_sizes(sizes))
    rate = results.best_rates().get("pivotrl")
    if rate is None:
        raise ValueError(f"{first}: PivotRL's sweep is not done; run the first study before the one from its model")
    run = Job("train", "pivotrl", results.sizes.seeds[0], rate)
    checkpoint = first / run.folder / "checkpoints" / f"step_{settled_step(sizes):06d}"
    source = {"checkpoint": run.folder, "checksums": json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))}
    if not out.exists():
        to_hf(checkpoint, out, 2**30)
        write_json(out / SOURCE, source)
    if not (out / SOURCE).exists() or json.loads((out / SOURCE).read_text(encoding="utf-8")) != source:
        raise ValueError(
            f"{out}: made from another checkpoint than {checkpoint}, which the first study has now; "
            f"remove {out.parent} and start again"
        )
