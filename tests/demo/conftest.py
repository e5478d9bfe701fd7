"""What the demo's tests share."""

import pytest

from pivotrl.demo.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def tokenizer():
    """The demo's tokenizer, trained from scratch."""
    return train_tokenizer()
