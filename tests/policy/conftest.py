"""The tiny models, made once for all tests of the policy."""

from pathlib import Path

import pytest
import torch

from tests.policy.tiny import KINDS, make


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one Hugging Face folder for each kind, fp32, and `moe_bf16`."""
    folder = tmp_path_factory.mktemp("tiny")
    for kind in KINDS:
        make(kind, folder / kind)
    make("moe", folder / "moe_bf16", torch.bfloat16)
    return folder
