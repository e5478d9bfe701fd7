"""One JSON object of a file, read with errors that name the file and the key."""

import json
import reprlib
import sys
from pathlib import Path
from typing import Any


class JsonObject:
    """The values of a JSON file such as a model's config.json. A key that is null counts as left out."""

    def __init__(self, file: Path) -> None:
        """Read the file.

        Raises:
            ValueError: it cannot be read, is not JSON, or holds something else than an object.
        """
        self.file = file
        try:
            self.values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"{file}: cannot be read ({error.strerror})") from None
        except RecursionError:
            raise ValueError(f"{file}: nested too deep for a JSON file that a model comes with") from None
        except ValueError as error:
            raise ValueError(f"{file}: not a JSON file ({error})") from None
        if not isinstance(self.values, dict):
            raise ValueError(f"{self.file}: expected a JSON object, found {type(self.values).__name__}")

    def wrong(self, key: str, found: object, expected: str) -> ValueError:
        """The error for a value that does not fit."""
        return ValueError(f"{self.file}: {key} is {reprlib.repr(found)}; expected {expected}")

    def size(self, *keys: str, default: int | None = None) -> int:
        """A positive whole number under the first of the keys that is there.

        Raises:
            ValueError: it is something else, or left out and without a default.
        """
        found = next((self.values[key] for key in keys if self.values.get(key) is not None), default)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise self.wrong(keys[0], found, "a positive whole number")
        return found

    def switch(self, key: str) -> bool:
        """true or false; false where the key is left out.

        Raises:
            ValueError: it is something else, such as the text "false".
        """
        found = self.values.get(key)
        if found is not None and not isinstance(found, bool):
            raise self.wrong(key, found, "true or false")
        return bool(found)

    def positive(self, key: str, found: object) -> float:
        """`found`, the value of `key` (possibly in an inner object), as a float.

        Raises:
            ValueError: it is not a positive, finite number.
        """
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found <= sys.float_info.max:
            raise self.wrong(key, found, "a positive number")
        return float(found)
