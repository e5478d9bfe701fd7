"""The user's own class, `my_package.module:MyVerifier`: imported, looked over and built. What is wrong with it is said
in one line."""

import importlib
import inspect
import re
from pathlib import PurePath
from types import FunctionType
from typing import Any

from pydantic import ValidationError

from pivotrl.verifiers.base import Verifier
from pivotrl.verifiers.raised import place_of

_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_FILE = re.compile(r"(.*\.py)(?::(\w+))?")
INIT = "write def __init__(self, params: dict[str, Any])"
VERIFY = "write def verify(self, attempt, params=None), which returns a Verdict"


def build_own(name: str, params: dict[str, Any]) -> Verifier:
    """The verifier that the user's class makes of the run's parameters.

    Raises ValueError where there is no such class, where it lacks a method or has one of another form, and where it
    cannot be built.
    """
    kind = own_class(name)
    _check_methods(name, kind)
    try:
        return kind(params)
    except ValidationError as error:  # a ValueError too, of many lines
        raise ValueError(f"verifier.params: {' '.join(str(error).split())}") from None
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"verifier.name: {name!r} cannot be built: its __init__ raises {_said(error)} "
            f"({place_of(error, kind.__module__)}); repair it there, or raise ValueError for an unusable parameter"
        ) from None


def own_class(name: str) -> type[Verifier]:
    """The user's class, imported by the name that the run's configuration gives. Raises ValueError."""
    if file := _FILE.fullmatch(name):
        path = PurePath(file[1])
        raise ValueError(
            f"verifier.name: {name!r} names a file; write the module and the class, "
            f"{path.stem}:{file[2] or 'MyVerifier'}, and set PYTHONPATH={path.parent}"
        )
    if not _OWN.fullmatch(name):
        raise ValueError(f"verifier.name: {name!r} is not of the form my_package.module:MyVerifier")
    module, attribute = name.split(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise ValueError(
            f"verifier.name: {name!r} cannot be imported ({error}); install its package, or set PYTHONPATH"
        ) from None
    except AttributeError:
        raise ValueError(f"verifier.name: the module {module} has no {attribute!r}") from None
    except Exception as error:  # the user's module may fail in any way
        raise ValueError(
            f"verifier.name: importing {module} fails: {_said(error)} ({place_of(error, module)})"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Verifier)):
        raise ValueError(
            f"verifier.name: {name!r} is not a subclass of pivotrl.verifiers.base.Verifier; "
            f"write class {attribute}(Verifier)"
        )
    return found


def _check_methods(name: str, kind: type[Verifier]) -> None:
    if missing := sorted(kind.__abstractmethods__):
        write = VERIFY if missing == ["verify"] else "write them"
        raise ValueError(f"verifier.name: {name!r} has no {', '.join(missing)}; {write}")
    if not _takes(kind, 1):
        raise ValueError(f"verifier.name: {name!r} is not built from the parameters alone{_shown(kind)}; {INIT}")
    if isinstance(kind.verify, FunctionType) and not _takes(kind.verify, 3):
        raise ValueError(
            f"verifier.name: {name!r} does not take an attempt and a row's parameters{_shown(kind.verify)}; {VERIFY}"
        )


def _takes(function: Any, count: int) -> bool:
    """Whether it can be called with so many arguments by place; True where Python does not tell."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _shown(function: Any) -> str:
    """` (it has (self, x))`: the signature as it was written."""
    shown = function.__init__ if isinstance(function, type) else function
    if shown is object.__init__:
        return " (it has no __init__)"
    return f" (it has {getattr(shown, '__name__', 'a method')}{inspect.signature(shown)})"
