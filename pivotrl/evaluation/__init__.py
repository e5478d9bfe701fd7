"""What policies can do, measured on the same held-out turns, live tasks and questions, and compared.

`evaluate` measures the policy in a session, `load_into` brings another one into it, `compare` sets results side by side
with intervals, and `report.write` makes files of them. `tools/evaluate.py` does it all.
"""

import importlib
from typing import Any

_FROM = {"evaluate": "measure", "heldout_pivots": "measure", "compare": "comparison", "load_into": "weights"}


def __getattr__(name: str) -> Any:
    """Imported when asked for: the run's configuration needs the section `evaluation.config` alone."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
