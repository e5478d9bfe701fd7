"""Fixtures that every room's tests share."""

import os
import threading
import time
from collections.abc import Iterator
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


@pytest.fixture(autouse=True)
def ends_its_threads() -> Iterator[None]:
    """A thread that a test leaves at work would keep the whole run from ending: it fails that test instead."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 20
    while left := [one for one in threading.enumerate() if one not in before and not one.daemon]:
        if time.monotonic() > until:
            pytest.fail(f"threads that still work: {', '.join(one.name for one in left)}")
        time.sleep(0.02)
