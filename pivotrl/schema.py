"""The base class of every section of the configuration."""

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Section(BaseModel):
    """One section of a run's YAML file, declared beside the code that uses it.

    Unknown keys are errors, and so are infinities and nan, and true or false for a number. The docstring under a field
    is its description: meaning, unit, a sensible other value.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=(), allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Pydantic takes true for 1, and YAML `yes` and `on` for true: `aux_loss: yes` would weigh it 1."""
        if isinstance(value, bool):
            annotation = cls.model_fields[info.field_name].annotation
            kinds = get_args(annotation) or (annotation,)
            if bool not in kinds and (int in kinds or float in kinds):
                raise ValueError("write a number")
        return value
