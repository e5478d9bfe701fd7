"""What a terminal agent types: keys by their tmux names, and text, of which only whole lines are sent."""

import re

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.shell.compare import compare

_KEY = re.compile(
    r"(?:[CMS]-)*(?:Enter|Escape|Tab|BTab|Space|BSpace|Up|Down|Left|Right|Home|End|PageUp|PageDown|PgUp|PgDn|PPage|NPage"
    r"|IC|DC|Insert|Delete|F[0-9]{1,2})|[CMS]-(?:[CMS]-)?[!-~]|\^[!-~]"
)


def compare_keystrokes(
    expected: list[str], actual: list[str], *, cwd: str | None = None, persistent: bool = True
) -> Difference | None:
    """Why two lists of keystrokes do not do the same; None where they do.

    Text that is typed in a row is one script, however it is cut into commands, compared as `shell.compare` does.
    Keys, and text behind the last line end, which waits at the prompt, are the same or not. Empty keystrokes wait.

    Args:
        expected: the expert's keystrokes, one string a command.
        actual: the model's, untrusted.
        cwd: the directory that both begin in, where it is known.
        persistent: see `shell.compare`; a terminal is one shell.
    """
    wanted, found = _pieces(expected), _pieces(actual)
    if wanted == found:
        return None
    for (kind, text, rest), (other_kind, other_text, other_rest) in zip(wanted, found):
        if kind != other_kind or (kind == "key" and text != other_text):
            return Difference(
                "other_keys", f"expected {excerpt(text + rest)}, found {excerpt(other_text + other_rest)}"
            )
        if rest != other_rest:
            reason = "not_sent" if rest.strip() == "" or other_rest.strip() == "" else "other_keys"
            return Difference(reason, f"expected {excerpt(text + rest)}, found {excerpt(other_text + other_rest)}")
        if text == other_text:
            continue
        if not text.strip() or not other_text.strip():  # a bare Enter answers whatever asks
            return Difference("other_keys", f"expected {excerpt(text)}, found {excerpt(other_text)}")
        difference = compare(text, other_text, cwd=cwd, persistent=persistent)
        if difference is not None:
            return difference
    if len(wanted) == len(found):
        return None
    longer, side = (wanted, "missing") if len(wanted) > len(found) else (found, "too many")
    _, text, rest = longer[min(len(wanted), len(found))]
    return Difference("other_keys", f"{side}: {excerpt(text + rest)}")


def _pieces(keystrokes: list[str]) -> list[tuple[str, str, str]]:
    """("key", its name, "") and ("text", whole lines, what follows the last line end), in order."""
    pieces: list[tuple[str, str, str]] = []
    typed: list[str] = []
    for strokes in [*keystrokes, None]:
        key = strokes is not None and len(strokes) < 40 and _KEY.fullmatch(strokes) is not None
        if strokes is not None and not key:
            typed.append(strokes)
            continue
        text = "".join(typed)
        if text:
            sent, line_end, rest = text.rpartition("\n")
            pieces.append(("text", sent + line_end, rest))
        typed.clear()
        if key:
            pieces.append(("key", strokes, ""))
    return pieces
