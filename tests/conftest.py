"""Fixtures that every room's tests share."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real trajectories and labelled verdicts that developers have beside the repository; users do not."""
    folder = Path(os.environ.get("PIVOTRL_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the developers' data folder, which is not at {folder} (set PIVOTRL_SHARED_DATA)")
    return folder
