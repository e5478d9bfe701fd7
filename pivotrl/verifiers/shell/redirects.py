"""Redirections in one spelling."""

from tree_sitter import Node

from pivotrl.verifiers.shell.forms import Redirect, Unparsed
from pivotrl.verifiers.shell.paths import Scope, resolve
from pivotrl.verifiers.shell.words import WordReader

_INPUT = ("<", "<&", "<>", "<<", "<<<")


def file_redirect(node: Node, reader: WordReader, scope: Scope, depth: int) -> tuple[list[Redirect], list[Node]]:
    """The redirections that one spelling stands for, and the arguments that the grammar took for further targets."""
    children = reader.children(node)
    descriptor = ""
    if children[0].type == "file_descriptor":
        descriptor = reader.text(children[0].start_byte, children[0].end_byte)
        children = children[1:]
    operator = children[0].type
    targets = children[1:]
    if operator.endswith("&-"):
        return [Redirect(descriptor or "01"[operator[0] == ">"], operator, "")], targets
    if not targets:
        raise Unparsed("a redirection to nothing")
    document = reader.here_document(targets[0])
    if document is not None:
        return [Redirect(descriptor or "0", "<<", document.said())], targets[1:]
    target = reader.word(targets[0], scope, depth)
    if operator in ("<&", ">&") and isinstance(target, str) and (target.isdigit() or target == "-"):
        return [Redirect(descriptor or "01"[operator[0] == ">"], operator, target)], targets[1:]
    path, depends = resolve(target, scope, keep_slash=True)
    directory = scope.directory if depends else None
    if operator in ("&>", "&>>", ">&"):  # both streams
        opened = Redirect("1", ">>" if operator == "&>>" else ">", path, directory)
        return [opened, Redirect("2", ">&", "1")], targets[1:]
    return [Redirect(descriptor or "01"[operator not in _INPUT], operator, path, directory)], targets[1:]


def here_string(node: Node, reader: WordReader, scope: Scope, depth: int) -> Redirect:
    """`<<< word`."""
    children = reader.children(node)
    descriptor = ""
    if children[0].type == "file_descriptor":
        descriptor = reader.text(children[0].start_byte, children[0].end_byte)
    return Redirect(descriptor or "0", "<<<", reader.word(children[-1], scope, depth, split=False))


def ordered(redirects: list[Redirect]) -> tuple[Redirect, ...]:
    """Redirections to files commute, as long as no descriptor is copied from another and each is set once."""
    descriptors = [redirect.descriptor for redirect in redirects]
    if len(set(descriptors)) < len(descriptors) or any("&" in redirect.operator for redirect in redirects):
        return tuple(redirects)
    return tuple(sorted(redirects, key=lambda redirect: redirect.descriptor))
