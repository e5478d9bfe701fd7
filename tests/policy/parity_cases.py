"""The layouts that the parity suite trains on, and what it allows each to differ by."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One way to compute the same three steps."""

    ranks: int
    parallel: dict[str, Any] = field(default_factory=dict)
    packing: str = "plain"
    tokens: int = 64
    """training.micro_batch_tokens: 1 puts every sample (or what shares a prompt with it) alone, 4096 all in one."""
    recompute: str = "none"
    distributed: bool = False
    model: str = "moe"
    """The kind of tests/policy/tiny.py: `moe`, `moe_raw_probs` (tied embeddings), `dense`."""
    dtype: str = "float32"
    """`float64`: float64 throughout, see tests/policy/float64.py; `float64, router float32`: but for the router."""
    fault: str = ""
    """A mistake that the worker makes on purpose, see `parity_ranks.FAULTS`: the bars must not hold."""

    @property
    def values(self) -> dict[str, Any]:
        """What JSON carries to the ranks."""
        return asdict(self)

    @property
    def layout(self) -> str:
        """As `TP2 SP PP2 VP2 EP2 ETP2 DP2`, without what is 1."""
        size = {"TP": "tensor", "PP": "pipeline", "VP": "virtual_pipeline", "EP": "expert", "ETP": "expert_tensor"}
        found = {short: self.parallel.get(key, 1) for short, key in size.items()}
        found["DP"] = self.ranks // (found["TP"] * found["PP"])
        words = [f"{short}{number}" for short, number in found.items() if number > 1]
        if found["TP"] > 1 and self.parallel.get("sequence", True):
            words.insert(1, "SP")
        return " ".join(words) or "one rank"


def _case(ranks: int, layout: str, packing: str, tokens: int, recompute: str, optimizer: str, **more: Any) -> Case:
    keys = {"tp": "tensor", "pp": "pipeline", "vp": "virtual_pipeline", "ep": "expert", "etp": "expert_tensor"}
    parallel: dict[str, Any] = {}
    for word in layout.split():
        if word == "nosp":
            parallel["sequence"] = False
        else:
            parallel[keys[word.rstrip("0123456789")]] = int(word[-1])
    return Case(ranks, parallel, packing, tokens, recompute, optimizer == "sharded", **more)


FIRST = _case(1, "", "plain", 64, "none", "whole")
"""Our own single process, which every other float32 case of its model is held against too."""

CASES = [
    FIRST,
    _case(1, "", "plain", 1, "full", "sharded"),
    _case(1, "", "plain", 4096, "selective", "whole"),
    _case(1, "", "prompt_once", 4096, "none", "whole"),
    _case(1, "", "prompt_once", 64, "full", "sharded"),
    _case(1, "", "prompt_once", 32, "selective", "whole"),
    _case(1, "", "plain", 64, "none", "whole", model="moe_raw_probs"),
    _case(1, "", "plain", 64, "none", "whole", model="dense"),
    _case(1, "", "plain", 64, "none", "whole", dtype="float64"),
    _case(1, "", "prompt_once", 64, "none", "whole", dtype="float64"),
    _case(1, "", "plain", 64, "none", "whole", dtype="float64, RoPE float32"),
    _case(1, "", "plain", 64, "none", "whole", dtype="float64, router float32"),
    _case(2, "tp2", "plain", 64, "none", "whole"),
    _case(2, "tp2 ep2", "prompt_once", 64, "selective", "sharded"),
    _case(2, "tp2 etp2", "plain", 4096, "full", "sharded"),
    _case(2, "tp2 nosp", "prompt_once", 64, "none", "whole", model="dense"),
    _case(2, "etp2", "prompt_once", 32, "selective", "whole"),
    _case(2, "ep2", "plain", 64, "none", "whole"),
    _case(2, "ep2", "prompt_once", 4096, "full", "sharded"),
    _case(2, "", "plain", 4096, "none", "sharded"),
    _case(2, "", "prompt_once", 64, "selective", "whole"),
    _case(2, "pp2", "plain", 64, "none", "whole"),
    _case(2, "pp2", "prompt_once", 64, "full", "sharded"),
    _case(2, "pp2 vp2", "plain", 1, "none", "whole"),
    _case(2, "pp2 vp2", "prompt_once", 64, "selective", "sharded"),
    _case(2, "pp2 vp2", "prompt_once", 4096, "full", "whole", model="moe_raw_probs"),
    _case(2, "tp2 ep2", "prompt_once", 64, "none", "whole", dtype="float64"),
    _case(2, "pp2 vp2", "prompt_once", 64, "none", "whole", dtype="float64"),
    _case(4, "tp2 pp2 ep2", "plain", 64, "none", "whole"),
    _case(4, "tp2 pp2 vp2 ep2", "prompt_once", 64, "full", "sharded"),
    _case(4, "tp2 pp2 etp2", "prompt_once", 4096, "none", "sharded"),
    _case(4, "tp2 ep2 etp2", "plain", 64, "selective", "whole"),
    _case(4, "tp2 ep4", "prompt_once", 64, "full", "sharded"),
    _case(4, "tp2", "prompt_once", 32, "full", "whole"),
    _case(4, "ep4", "plain", 4096, "none", "sharded"),
    _case(4, "ep4", "prompt_once", 32, "selective", "whole"),
    _case(4, "ep2", "plain", 1, "selective", "sharded"),
    _case(4, "ep2 etp2", "prompt_once", 64, "full", "sharded"),
    _case(4, "pp2 ep2", "prompt_once", 64, "selective", "sharded"),
    _case(4, "pp2 vp2 etp2", "plain", 4096, "none", "whole"),
    _case(4, "", "prompt_once", 64, "none", "whole"),
    _case(4, "pp2 vp2 ep2", "plain", 64, "full", "sharded"),
    _case(4, "tp2 pp2 vp2 ep2", "prompt_once", 64, "none", "sharded", dtype="float64"),
]

WRONG = [
    _case(1, "", "plain", 64, "none", "whole", fault="a denominator for each micro-batch"),
    _case(1, "", "prompt_once", 64, "none", "whole", fault="responses that see the ones before"),
    _case(2, "tp2 ep2", "plain", 64, "none", "whole", fault="the head's gradient summed twice"),
    _case(2, "", "plain", 64, "none", "whole", fault="a mean over data-parallel ranks"),
    _case(2, "tp2", "plain", 64, "none", "whole", fault="norms without the sum over tensor ranks"),
]
