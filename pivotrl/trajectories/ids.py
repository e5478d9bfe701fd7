"""Names that stay the same on every machine and in every run: hashes, splits, and ids made distinct."""

import hashlib


def stable_hash(*parts: object) -> int:
    """64 bits of SHA-256 over the parts' texts; Python's own `hash` differs from process to process."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def split_of(group: str, seed: int, heldout_share: float) -> str:
    """`heldout` for a share of the groups, `train` for the others; adding or removing a group moves no other."""
    return "heldout" if stable_hash("split", seed, group) < heldout_share * 2**64 else "train"


class DistinctIds:
    """Gives the second bearer of an id the suffix `~2`, the third `~3`. Holds one small integer per id, not the ids."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def __call__(self, name: str) -> str:
        while True:
            key = stable_hash(name)
            count = self._counts[key] = self._counts.get(key, 0) + 1
            if count == 1:
                return name
            name = f"{name}~{count}"
