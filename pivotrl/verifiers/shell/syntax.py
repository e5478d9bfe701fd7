"""The syntax tree to the canonical form: scripts, pipelines, compound commands and simple ones."""

import re

from tree_sitter import Node

from pivotrl.verifiers.shell.flatten import Stage, flatten
from pivotrl.verifiers.shell.forms import DEEPEST, Command, Compound, Redirect, Script, Unparsed, Word, names
from pivotrl.verifiers.shell.heredocs import HereDocument
from pivotrl.verifiers.shell.paths import LONGEST_PATH, Scope, depends_on_directory, resolve
from pivotrl.verifiers.shell.redirects import file_redirect, here_string, ordered
from pivotrl.verifiers.shell.simple import simple_command
from pivotrl.verifiers.shell.words import WORDS, WordReader

STATEMENTS = names(
    "command list pipeline redirected_statement negated_command subshell compound_statement if_statement "
    "while_statement for_statement c_style_for_statement case_statement function_definition variable_assignment "
    "variable_assignments declaration_command unset_command test_command"
)
_INNER = names("do_group else_clause elif_clause case_item")
_MOVES = re.compile(r"(?<![\w/.-])(?:cd|pushd|popd|source|eval|\.)(?![\w/.=-])")
"""Commands after which the directory may be another one; also where the word is none of these but an argument."""


class ScriptReader:
    """Reads one parsed text."""

    def __init__(self, source: bytes, documents: list[HereDocument]):
        self._words = WordReader(source, documents, self.read_script)

    def statements(self, root: Node) -> list[Node]:
        """The statements of a whole text. Raises Unparsed where text stands between them."""
        return self._words.children(root)

    def read_script(self, nodes: list[Node], scope: Scope, depth: int) -> Script:
        """Statements in order; `scope` follows each `cd`.

        A `cd` that the script starts with is left out where it is followed by something, as the paths that follow
        are taken from its directory, and commands that depend on it name it. Raises Unparsed.
        """
        if depth > DEEPEST:
            raise Unparsed("nested too deeply")
        steps: list[tuple[object, str]] = []
        leading = not scope.persistent
        groups = _and_or_lists(nodes)
        for index, (node, end) in enumerate(groups):
            inner = scope if end == ";" else scope.copy()
            row = flatten(node, self._words.children)
            while leading and (operator := row[1] if len(row) > 1 else ";" if index + 1 < len(groups) else ""):
                # `cd a && b || c`: c runs where cd failed.
                if operator not in ("&&", ";") or "||" in row or (end == "&" and operator == ";"):
                    break
                moved = self._literal_cd(row[0], inner, depth)
                if moved is None:
                    break
                inner.directory = moved
                row = row[2:]
                if not row:
                    break
            if row:
                leading = False
                self._and_or(row, end, inner, depth, steps)
        if steps and steps[-1][1] == ";":
            steps[-1] = (steps[-1][0], "")
        return Script(tuple(steps))

    def _and_or(self, row: list[Stage | str], end: str, scope: Scope, depth: int, steps: list) -> None:
        """`a && b | c || d` as three steps."""
        pipeline: list[Stage | str] = []
        certain = True  # what was read so far runs, unless it fails where a failure ends the list
        for item in [*row, end]:
            if item not in ("&&", "||", ";", "&"):
                pipeline.append(item)
                continue
            statement = self._pipeline(pipeline, scope, depth)
            steps.append((statement, item))
            if item != "||" and certain and len(pipeline) == 1:
                moved = self._literal_cd(pipeline[0], scope, depth)
                if moved is not None:
                    scope.directory = moved
                    certain = certain and item != "||"
                    pipeline = []
                    continue
            if len(pipeline) == 1 and statement[0] != "(" and self._may_move(pipeline[0].node):
                scope.lose()
            certain = certain and item != "||"
            pipeline = []

    def _pipeline(self, row: list[Stage | str], scope: Scope, depth: int) -> Command | Compound:
        negations = 0
        while row and row[0] == "!":
            negations, row = negations + 1, row[1:]
        if not row or len(row) % 2 == 0:
            raise Unparsed("a pipeline with an empty stage")
        stages = []
        for stage, pipe in zip(row[::2], [*row[1::2], ""]):
            if isinstance(stage, str) or pipe not in ("|", "|&", ""):
                raise Unparsed("a pipeline with an empty stage")
            where = scope if len(row) == 1 else scope.copy()
            form = self._stage(stage, where, depth)
            if pipe == "|&":
                form = form._replace(redirects=(*form.redirects, Redirect("2", ">&", "1")))
            stages.append(form)
        form = stages[0] if len(stages) == 1 else Compound("|", tuple(stages))
        for _ in range(negations % 2 or (2 if negations else 0)):
            form = Compound("!", (form,))
        return form

    def _stage(self, stage: Stage, scope: Scope, depth: int) -> Command | Compound:
        node, hung = stage.node, stage.redirects
        if node is not None and node.type == "command":
            return self._command(stage, scope, depth)
        if node is not None and node.type == "file_redirect":  # $(<f)
            node, hung = None, [node]
        redirects, extra = self._redirects(hung, scope, depth)
        if extra:
            raise Unparsed("arguments of a compound command")
        found = ordered(redirects)
        if node is None:
            return Command(None, (), "", (), (), found)
        if node.type in ("variable_assignment", "variable_assignments"):
            assignments = [node] if node.type == "variable_assignment" else self._words.children(node)
            values = tuple(self._assignment(item, scope, depth) for item in assignments)
            directory = scope.directory if any(depends_on_directory(value) for _, _, value in values) else None
            return Command(directory, values, "", (), (), found)
        if node.type in ("declaration_command", "unset_command"):
            name, *rest = self._words.children(node)
            operands = tuple(self._declared(item, scope, depth) for item in rest)
            return Command(scope.directory, (), name.type, None, operands, found)
        if node.type == "subshell":
            return Compound("(", self._parts(node, Scope(scope.directory), depth), found)
        if node.type == "test_command" and node.children[0].type == "[":
            return Command(scope.directory, (), "test", None, self._test(node, scope, depth)[1:-1], found)
        inner = Scope(scope.directory, persistent=True)
        if node.type == "function_definition" or self._may_move(node):
            inner.lose()  # a body that runs elsewhere, or again after it moved
        parts = self._parts(node, inner, depth)
        if node.type == "compound_statement" and parts[0] == "{":
            return Compound("{", parts, found)
        return Compound(node.type, parts if inner.directory is None else (*parts, inner.directory), found)

    def _command(self, stage: Stage, scope: Scope, depth: int) -> Command:
        environment, words, redirect_nodes = [], [], []
        for child in self._words.children(stage.node, one_line=True):
            kind = child.type
            if kind == "variable_assignment":
                environment.append(self._assignment(child, scope, depth))
            elif kind == "command_name":
                words.append(self._words.word(child.children[0] if child.children else child, scope, depth))
            elif kind in WORDS:
                words.append(self._words.word(child, scope, depth))
            elif kind.endswith("_redirect"):
                redirect_nodes.append(child)
            elif kind != "comment":
                raise Unparsed(kind)
        redirects, extra = self._redirects([*redirect_nodes, *stage.redirects], scope, depth)
        words.extend(self._words.word(node, scope, depth) for node in extra)
        return simple_command(environment, words, ordered(redirects), scope, depth)

    def _redirects(self, nodes: list[Node], scope: Scope, depth: int) -> tuple[list[Redirect], list[Node]]:
        redirects: list[Redirect] = []
        extra: list[Node] = []
        for node in nodes:
            if node.type == "herestring_redirect":
                redirects.append(here_string(node, self._words, scope, depth))
            elif node.type != "file_redirect":
                raise Unparsed(node.type)
            else:
                found, more = file_redirect(node, self._words, scope, depth)
                redirects.extend(found)
                extra.extend(more)
        return redirects, extra

    def _assignment(self, node: Node, scope: Scope, depth: int) -> tuple[str, str, Word]:
        """Name, `=` or `+=`, and value."""
        parts = self._words.children(node)
        if len(parts) not in (2, 3) or parts[1].type not in ("=", "+="):
            raise Unparsed("an assignment")
        name = self._words.text(parts[0].start_byte, parts[0].end_byte)
        value = self._words.word(parts[2], scope, depth, split=False) if len(parts) == 3 else ""
        return name, parts[1].type, value

    def _declared(self, node: Node, scope: Scope, depth: int) -> object:
        if node.type == "variable_assignment":
            return self._assignment(node, scope, depth)
        if node.type == "variable_name":
            return self._words.text(node.start_byte, node.end_byte)
        return self._words.word(node, scope, depth)

    def _parts(self, node: Node, scope: Scope, depth: int) -> tuple[object, ...]:
        """A compound command as its keywords, words and scripts; other syntax (`[[`, arithmetic) as it is written."""
        if depth > DEEPEST:
            raise Unparsed("nested too deeply")
        text = self._words.text(node.start_byte, node.end_byte)
        if node.type in ("test_command", "c_style_for_statement") or text.startswith("(("):
            return (text,)
        parts: list[object] = []
        body: list[Node] = []
        for child in [*self._words.children(node), None]:
            kind = child.type if child is not None else ""
            if kind in STATEMENTS or kind in (";", "&", "\n", "comment"):
                body.append(child)
                continue
            script = self.read_script(body, scope.copy(), depth + 1)
            if script.steps:
                parts.append(script)
            body = []
            if child is None:
                break
            if kind in WORDS:
                parts.append(self._words.word(child, scope, depth))
            elif kind in _INNER:
                parts.append((kind, self._parts(child, scope, depth + 1)))
            else:
                parts.append(self._words.text(child.start_byte, child.end_byte))
        return tuple(parts)

    def _test(self, node: Node, scope: Scope, depth: int) -> tuple[object, ...]:
        """`[ ... ]`, whose arguments are words."""
        parts: list[object] = []
        waiting = [node]
        while waiting:
            item = waiting.pop()
            if item.type in WORDS:
                parts.append(self._words.word(item, scope, depth))
            elif item.child_count:
                waiting.extend(reversed(self._words.children(item)))
            else:
                parts.append(self._words.text(item.start_byte, item.end_byte))
        return tuple(parts)

    def _literal_cd(self, stage: Stage | str, scope: Scope, depth: int) -> str | None:
        """The directory that `cd DIR` moves to; None where the stage is anything else, or only the shell can tell."""
        if isinstance(stage, str) or stage.redirects or stage.node is None:
            return None
        node = stage.node
        if node.type != "command" or node.child_count != 2:
            return None
        name, argument = node.children
        if self._words.text(name.start_byte, name.end_byte) != "cd":
            return None
        target = self._words.word(argument, scope, depth)
        if not isinstance(target, str) or target == "-" or target.startswith("~"):
            return None
        path, depends = resolve(target, scope)
        return None if depends or not isinstance(path, str) or not 0 < len(path) <= LONGEST_PATH else path

    def _may_move(self, node: Node | None) -> bool:
        """Whether a command that changes the directory may stand somewhere in it; true now and then where none does."""
        if node is None:
            return False
        return _MOVES.search(self._words.text(node.start_byte, node.end_byte)) is not None


def _and_or_lists(nodes: list[Node]) -> list[tuple[Node, str]]:
    """Statements, each with `;` or `&` after it."""
    found: list[tuple[Node, str]] = []
    for node in nodes:
        kind = node.type
        if kind == "&":
            if not found:
                raise Unparsed("& after nothing")
            found[-1] = (found[-1][0], "&")
        elif kind in STATEMENTS or (kind == "file_redirect" and len(nodes) == 1):
            found.append((node, ";"))
        elif kind not in (";", "\n", "comment"):
            raise Unparsed(kind)
    return found
