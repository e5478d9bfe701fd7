"""A name of a model folder's weights that costs a few reads, however large they are."""

import hashlib
from pathlib import Path

WHOLE, PIECES, PIECE = 64 << 20, 16, 1 << 20
"""Bytes of a file up to which it is read whole; of a larger one, how many pieces are read, and their bytes."""


def model_digest(folder: str | Path) -> str:
    """Names, sizes and content of the weights' files: other where the weights were trained on, whose every part moves.
    Raises OSError.

    Args:
        folder: `model.path`; one without weights has a name as well.
    """
    found = hashlib.sha256()
    for path in sorted(path for kind in ("*.safetensors", "*.bin") for path in Path(folder).glob(kind)):
        size = path.stat().st_size
        found.update(f"{path.name} {size}\0".encode())
        with open(path, "rb") as file:
            if size <= WHOLE:
                found.update(file.read())
                continue
            for piece in range(PIECES):
                file.seek((size - PIECE) * piece // (PIECES - 1))
                found.update(file.read(PIECE))
    return found.hexdigest()[:32]
