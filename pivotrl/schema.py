"""The base class of every section of the configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section of a run's YAML file, declared beside the code that uses it.

    Unknown keys are errors, and so are infinities and nan. The docstring under a field is its description: meaning,
    unit, a sensible other value.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=(), allow_inf_nan=False
    )
