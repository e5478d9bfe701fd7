"""YAML as a configuration needs it: no aliases, no key twice, no dates, no deep nesting. Mistakes name the line."""

import reprlib
from typing import Any, ClassVar

import yaml

DEEPEST = 32
"""Levels of nesting. The configuration needs four; what is nested far deeper would end Python's stack."""


def load(text: str) -> Any:
    """Read one YAML document.

    Raises:
        yaml.YAMLError: the text is not YAML, or uses something that is left out here.
    """
    return yaml.load(text, _Loader)


def dump(value: Any) -> str:
    """Write what `load` reads back equal."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False)


class _Loader(yaml.SafeLoader):
    # 2020-01-01 stays a text: no value of a configuration is a date, and the error for a wrong one would name no key.
    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.name = "configuration"  # what marks in errors call the text
        self.depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            # A few lines of aliases of aliases stand for more values than memory holds.
            name = reprlib.repr(event.anchor)
            raise yaml.MarkedYAMLError(f"alias {name}: write the value out", None, None, event.start_mark)
        if self.depth == DEEPEST:
            raise yaml.MarkedYAMLError(f"nested deeper than {DEEPEST} levels", None, None, event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                name = reprlib.repr(key.value)
                raise yaml.MarkedYAMLError(f"key {name} is there twice: remove one", None, None, key.start_mark)
            seen.add((key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key))
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError, TypeError) as error:  # PyYAML lets these out of `!!int x`, 0b_
            message = f"{reprlib.repr(node.value)} is not a value of {node.tag} ({reprlib.repr(str(error))})"
            raise yaml.MarkedYAMLError(message, None, None, node.start_mark) from None


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
