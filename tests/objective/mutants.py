"""Wrong versions of a module, to show that a check notices."""

import inspect
from types import ModuleType


def mutant(module: ModuleType, old: str, new: str) -> ModuleType:
    """A copy of `module` whose source has `new` in the one place where `old` stood; the module itself is untouched."""
    source = inspect.getsource(module)
    if source.count(old) != 1:  # no AssertionError, which the tests wait for
        raise LookupError(f"{module.__name__} has {source.count(old)} times {old!r}: bring the mutation up to date")
    copy = ModuleType(module.__name__)
    exec(compile(source.replace(old, new), f"{module.__file__} with {new!r}", "exec"), copy.__dict__)
    return copy
