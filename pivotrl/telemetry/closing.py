"""What a finished training run leaves on the terminal."""

from pathlib import Path

from pivotrl.command import to_paste


def closing_words(run: Path, start: int, steps: int) -> str:
    """Where the checkpoint is, and the commands that take it further.

    Args:
        run: the run's folder.
        start: the step that this start of the run went on from.
        steps: `training.steps`.
    """
    words = [f"{run} had all its {steps} steps already; raise training.steps to go on"] if start >= steps else []
    latest = run / "checkpoints" / "latest"
    if latest.exists():
        folder = latest.with_name(latest.read_text().strip())
        out = run / f"hf_{folder.name}"
        words += [
            f"checkpoint: {folder}",
            f"report:     {to_paste('tools/report.py', run)}",
            f"weights:    {to_paste('tools/convert_hf.py', 'to-hf', '--checkpoint', folder, '--out', out)}",
        ]
    return "\n".join(words)
