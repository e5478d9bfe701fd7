"""Source of the languages that have a tree-sitter grammar here, as its syntax tree without comments and formatting.

The tree's shape is compared too, not the leaves alone: it tells where a statement ends that no `;` ends.

On text that does not parse, a parser of this kind can take minutes and gigabytes (`x=>` a thousand times, as Java). So
both texts are parsed only where their outlines (`lexer.outline_of`) are equal: then the model's is made of the expert's
own tokens.
"""

import importlib
import re
from functools import cache
from typing import Any

from pivotrl.verifiers.code.lexer import tokens_of
from pivotrl.verifiers.shell.parse import shadow

LONGEST = 20_000
"""Characters that are parsed; a longer text is compared by its tokens."""
LONGEST_OF = {"bash": 8_000}
"""The grammar of bash is the slowest on text that does not parse."""

GRAMMARS = {
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "bash": ("tree_sitter_bash", "language"),
}
_SCRIPTS = {"javascript", "typescript", "tsx"}
_OPTIONAL_SEMICOLON = {*_SCRIPTS, "go", "bash"}
_VERBATIM = re.compile(r".*(?:string|char_literal|character_literal|rune_literal|heredoc_body|regex|macro_body)\w*")
_HEADERS = {"for_statement", "for_clause", "empty_statement", "c_style_for_statement"}
_MACRO = "token_tree"
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_PLAIN = re.compile(r"'[^'\"\\\n]*'")
_FRAMES = {
    "javascript": ("class A {\n", "\n}"),
    "typescript": ("class A {\n", "\n}"),
    "tsx": ("class A {\n", "\n}"),
    "go": ("package p\nfunc f() {\n", "\n}"),
    "rust": ("fn f() {\n", "\n}"),
    "java": ("class A { void f() {\n", "\n} }"),
    "c": ("void f() {\n", "\n}"),
    "cpp": ("void f() {\n", "\n}"),
}
"""What makes a module of a snippet that is none by itself: members of a class, or statements of a function."""


def fits(text: str, language: str) -> bool:
    """Whether the text is short enough to be parsed."""
    return len(text) <= LONGEST_OF.get(language, LONGEST) and not _CONTROL.search(text)


def tree_of(text: str, language: str) -> tuple[str, ...] | None:
    """The nodes in preorder, flat; None where the text, one that `fits`, parses neither as a file nor as a snippet."""
    for before, after in [("", "")] + ([_FRAMES[language]] if language in _FRAMES else []):
        whole = before + text.strip("\n") + "\n" + after
        source = whole.encode("utf-8", "surrogatepass")
        read = shadow(whole).encode("utf-8", "surrogatepass") if language == "bash" else source
        tree = _parser(language).parse(read)
        if tree is not None and not tree.root_node.has_error:
            return (before, *_flatten(tree.root_node, source, language))
    return None


@cache
def _parser(language: str) -> Any:
    import tree_sitter

    module, name = GRAMMARS[language]
    return tree_sitter.Parser(tree_sitter.Language(getattr(importlib.import_module(module), name)()))


def _flatten(root: Any, source: bytes, language: str) -> list[str]:
    """Without recursion. Text between a node's children that the grammar names nowhere counts as a leaf."""
    result: list[str] = []
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            result.append(node)
            continue
        children = node.children
        verbatim = node.is_named and (not children or _VERBATIM.fullmatch(node.type))
        if verbatim or not children:
            result.append(_leaf(node, source, language))
            continue
        result.append(f"({node.type}")
        kept: list[Any] = []
        position = node.start_byte
        for child in children:
            gap = source[position : child.start_byte].strip()
            if gap:
                kept.append(gap.decode("utf-8", "replace"))
            if not _is_comment(child, source, language):
                kept.append(child)
            position = child.end_byte
        gap = source[position : node.end_byte].strip()
        if gap:
            kept.append(gap.decode("utf-8", "replace"))
        stack.append(")")
        stack.extend(reversed(_without_optional(node, kept, language)))
    return result


def _is_comment(node: Any, source: bytes, language: str) -> bool:
    """`//go:embed` and its like are directives."""
    if not node.is_named or "comment" not in node.type:
        return False
    return not (language == "go" and source.startswith(b"//go:", node.start_byte))


def _without_optional(parent: Any, children: list[Any], language: str) -> list[Any]:
    """Without line ends, without a comma before the bracket that closes a list (`[a,,]` keeps both), and without `;`
    where a line's end does the same."""
    kinds = [child if isinstance(child, str) else child.type for child in children]
    result = []
    for index, child in enumerate(children):
        kind = kinds[index]
        if not isinstance(child, str) and not child.is_named:
            if not kind.strip():
                continue
            if kind == ";" and language in _OPTIONAL_SEMICOLON and parent.type not in _HEADERS:
                continue
            if (
                kind == ","
                and parent.type != _MACRO
                and index + 1 < len(kinds)
                and kinds[index + 1] in (")", "]", "}")
                and index > 0
                and kinds[index - 1] not in (",", "(", "[", "{")
            ):
                continue
        result.append(child)
    return result


def _leaf(node: Any, source: bytes, language: str) -> str:
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if node.type == "jsx_text":
        # Lines are trimmed but for the text's own ends, and joined by one space: JSX's rule.
        lines = text.split("\n")
        lines = [
            (line if index == 0 else line.lstrip()) if index == len(lines) - 1 else line.rstrip() if index == 0 else
            line.strip() for index, line in enumerate(lines)
        ]  # fmt: skip
        return " ".join(line for line in lines if line)
    if node.type == "string" and language in _SCRIPTS and _PLAIN.fullmatch(text):
        return f'"{text[1:-1]}"'
    if node.type == "preproc_arg":  # to the line's end, comments included
        return " ".join(tokens_of(text, language))
    return text if node.is_named else f"'{text}"
