"""What a tool's JSON schema says about one value. Schemas come from data files: whatever is odd in one says nothing.

Read are `type`, `enum`, `const`, `format`, `pattern`, `default`, `properties`, `required`, `additionalProperties`,
`patternProperties`, `items`, `prefixItems`, `uniqueItems`, `nullable` (OpenAPI), and, to get at them, local `$ref`,
`allOf`, `anyOf` and `oneOf`. Keywords as in JSON Schema 2020-12.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

MOST_STEPS = 64
"""References, and branches of allOf, anyOf and oneOf, that are followed for one value; the rest say nothing."""
MISSING = object()
"""Stands for an argument that was left out."""

_UNIONS = ("anyOf", "oneOf")


def parameters_of(tools: Any, name: Any) -> Schema | None:
    """The JSON schema of the arguments of the tool `name`; None where there is no such tool, or it has no schema."""
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(function, dict) and function.get("name") == name:
            found = function.get("parameters")
            return found if isinstance(found, dict) and found else None
    return None


def resolve(schema: Any, root: Schema, value: Any = MISSING) -> Schema:
    """The schema of one value as a flat dict: references followed, allOf merged, and of anyOf and oneOf the first
    branch that `value` fits laid over it; `nullable` is true where null is admitted.

    Args:
        schema: any JSON value; what is no schema gives {}.
        root: the schema that `#/...` references start from.
        value: the expert's value, which chooses the branch; MISSING chooses none.
    """
    if isinstance(schema, dict) and not (_INDIRECT & schema.keys()):
        return schema
    return _resolve(schema, root, value, [MOST_STEPS])


_INDIRECT = {"$ref", "allOf", "anyOf", "oneOf", "nullable"}


def _resolve(schema: Any, root: Schema, value: Any, steps: list[int]) -> Schema:
    if not isinstance(schema, dict):
        return {}
    flat: Schema = {}
    for part in _conjuncts(schema, root, steps):
        _merge(flat, part)
    for key in _UNIONS:
        branches = flat.pop(key, None)
        if not isinstance(branches, list):
            continue
        resolved = [_resolve(branch, root, value, steps) for branch in branches if _step(steps)]
        if any(admits_null(branch) and _says_type(branch) for branch in resolved):
            flat["nullable"] = True
        if value is not MISSING and (chosen := next((x for x in resolved if fits(value, x)), None)) is not None:
            _merge(flat, {k: v for k, v in chosen.items() if k != "nullable"})
    return flat


def _conjuncts(schema: Schema, root: Schema, steps: list[int]) -> Iterator[Schema]:
    """The schema's own keywords, then those of what it refers to and of its allOf."""
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    yield own
    inner = [_target(schema["$ref"], root)] if "$ref" in schema else []
    if isinstance(schema.get("allOf"), list):
        inner += schema["allOf"]
    for part in inner:
        if isinstance(part, dict) and _step(steps):
            yield from _conjuncts(part, root, steps)


def _step(steps: list[int]) -> bool:
    steps[0] -= 1
    return steps[0] >= 0


def _merge(flat: Schema, part: Schema) -> None:
    """Add keywords; those that are there stay, but properties, required and enum come together."""
    for key, value in part.items():
        known = flat.get(key)
        if key not in flat:
            flat[key] = value
        elif key == "properties" and isinstance(known, dict) and isinstance(value, dict):
            flat[key] = {**value, **known}
        elif key == "required" and isinstance(known, list) and isinstance(value, list):
            flat[key] = known + value
        elif key == "enum" and isinstance(known, list) and isinstance(value, list):
            flat[key] = [member for member in known if member in value]


def _target(reference: Any, root: Schema) -> Any:
    """What a local reference such as `#/$defs/Place` points at; None where it points nowhere or elsewhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        if not isinstance(found, dict):
            return None
        found = found.get(part.replace("~1", "/").replace("~0", "~"))
    return found


def types_of(schema: Schema) -> tuple[str, ...]:
    """The JSON types that a resolved schema admits; () where it does not say."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return (kind,)
    return tuple(x for x in kind if isinstance(x, str)) if isinstance(kind, list) else ()


def enum_of(schema: Schema) -> list[Any] | None:
    """The values that a resolved schema admits, where it lists them."""
    if "const" in schema:
        return [schema["const"]]
    members = schema.get("enum")
    return members if isinstance(members, list) and members else None


def _says_type(schema: Schema) -> bool:
    return bool(types_of(schema)) or enum_of(schema) is not None or schema.get("nullable") is True


def admits_null(schema: Schema) -> bool:
    """Whether null is a value of a resolved schema."""
    types, members = types_of(schema), enum_of(schema)
    if schema.get("nullable") is True or "null" in types:
        return True
    return None in members if members is not None else not types


def fits(value: Any, schema: Schema) -> bool:
    """Whether a value has the type of a resolved schema, is one of its enum, and (an object) has its required keys and,
    under each that has few values of its own, one of them (a `kind` that tells branches apart)."""
    if value is None:
        return admits_null(schema)
    types = types_of(schema)
    if types and not any(_is_of(value, kind) for kind in types):
        return False
    members = enum_of(schema)
    if members is not None and not any(_is_member(value, member) for member in members):
        return False
    if not isinstance(value, dict):
        return True
    required = schema.get("required")
    if isinstance(required, list) and any(isinstance(key, str) and key not in value for key in required):
        return False
    return all(
        any(_is_member(value[key], member) for member in members)
        for key, inner in properties_of(schema).items()
        if key in value and isinstance(inner, dict) and (members := enum_of(inner)) is not None
    )


def _is_member(value: Any, member: Any) -> bool:
    """Equality in which true is not 1."""
    return isinstance(value, bool) == isinstance(member, bool) and value == member


def _is_of(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "number":
        return isinstance(value, int | float)
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind in ("array", "object"):
        return isinstance(value, list if kind == "array" else dict)
    return kind not in ("boolean", "null")  # a word that JSON Schema does not have says nothing


def properties_of(schema: Schema) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def is_required(schema: Schema, key: str) -> bool:
    required = schema.get("required")
    return isinstance(required, list) and key in required


def other_properties(schema: Schema) -> Any:
    """The schema of keys that are not in `properties`; None where there may be no others.

    JSON Schema's own default would admit any; a tool would not know what to do with them.
    """
    if isinstance(schema.get("patternProperties"), dict) and schema["patternProperties"]:
        return {}
    more = schema.get("additionalProperties")
    return more if isinstance(more, dict) else {} if more is True else None
