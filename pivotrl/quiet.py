"""A terminal for people: what libraries say about themselves is kept off it. Imports nothing heavy."""

import os
import warnings

_DEFAULTS = {
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "GLOO_LOG_LEVEL": "ERROR",
    "GLOG_minloglevel": "2",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PYTHONWARNINGS": "ignore",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def quiet() -> None:
    """Silence banners and warnings of the libraries, in this process and its children. Call before they are imported.

    A variable that the user has set is kept: `PYTHONWARNINGS=default` or `VLLM_LOGGING_LEVEL=INFO` brings them back.
    """
    if "PYTHONWARNINGS" not in os.environ:
        warnings.filterwarnings("ignore")
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
