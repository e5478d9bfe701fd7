"""Sizes of the model to plan for: from its Hugging Face folder, or published ones where the folder is elsewhere."""

from pathlib import Path

from pivotrl.policy.architecture import Architecture

_PUBLISHED = Path(__file__).parent / "published"


def architecture_of(path: str, override: str | Path | None = None) -> tuple[Architecture, str]:
    """The architecture of `model.path`, and where its sizes come from.

    Args:
        path: `model.path`. A folder that is not there is looked up by its name among the published models.
        override: a Hugging Face folder to read instead.

    Raises:
        ValueError: there is no such folder and no published model of its name, or its config.json cannot be used.
    """
    folder = Path(override or path)
    if override or (folder / "config.json").is_file():
        return Architecture.from_hf(folder), str(folder / "config.json")
    known = sorted(entry.name for entry in _PUBLISHED.iterdir() if entry.is_dir())
    if folder.name not in known:
        raise ValueError(
            f"model.path is {path}, where there is no config.json, and no model of that name is known: give its folder "
            f"with --hf, or one of {', '.join(known)}"
        )
    return Architecture.from_hf(_PUBLISHED / folder.name), f"the published sizes of {folder.name}"
