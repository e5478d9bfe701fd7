"""How alike two texts are, from sketches of fixed size (MinHash; Broder 1997, "On the resemblance and containment of
documents").

The similarity is Jaccard's of the sets of three words in a row. Each of P hash functions keeps its minimum over a set,
and two sets share a minimum with the probability of their similarity, so the share of equal minima estimates it with a
standard error of at most 1 / (2 sqrt P) = 0.06. Texts whose similarity is .8 agree on one of the 16 bands of 4 minima
with probability 1 - (1 - .8^4)^16 = .9998, at .3 with .12: bands find candidates, minima confirm them.

Legend: S = shingles of a text, P = hash functions.
"""

import re
from zlib import crc32

import numpy as np

SHINGLE, BANDS, ROWS = 3, 16, 4
ALIKE = 0.8
"""Similarity from which two texts count as near-duplicates."""
_P = BANDS * ROWS
_WORD = re.compile(rb"[\w\x80-\xff]+|[^\w\s\x80-\xff]")
"""Bytes of UTF-8: letters beyond ASCII belong to words."""
_RANDOM = np.random.default_rng(20260311)
_FACTOR_P = _RANDOM.integers(1, 2**63, _P, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_SHIFT_P = _RANDOM.integers(0, 2**63, _P, dtype=np.uint64)
_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)


def signature(text: str, most_words: int) -> np.ndarray:
    """Minima of the text's last `most_words` words: uint32 [P]. A text of fewer than three words is one shingle."""
    words = _WORD.findall(text.lower().encode("utf-8", "surrogatepass"))[-most_words:]
    hashes = np.array([*map(crc32, words)], np.uint64)
    short = max(0, SHINGLE - len(hashes))
    padded = np.concatenate([hashes, np.zeros(short, np.uint64)])
    count = len(padded) - SHINGLE + 1
    shingles_S = np.zeros(count, np.uint64)
    for place in range(SHINGLE):
        shingles_S = (shingles_S ^ (padded[place : place + count] + np.uint64(1)) * _MIX[place]) * _MIX[0]
        shingles_S ^= shingles_S >> np.uint64(29)
    shingles_S = np.unique(shingles_S)
    minima_P = ((shingles_S[:, None] * _FACTOR_P + _SHIFT_P) >> np.uint64(32)).min(axis=0)
    return minima_P.astype(np.uint32)


def band_keys(signature_P: np.ndarray) -> list[bytes]:
    """One key for each band; texts with an equal one are candidates."""
    rows = signature_P.reshape(BANDS, ROWS)
    return [bytes([band]) + row.tobytes() for band, row in enumerate(rows)]


def similarity(one_P: np.ndarray, other_P: np.ndarray) -> float:
    """Estimated Jaccard similarity."""
    return float((one_P == other_P).mean())
