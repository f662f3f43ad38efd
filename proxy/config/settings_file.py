"""proxy.toml as it is written, with the single keys that the environment or ``--set`` replace.

Knows TOML types only, no key. Precedence: file, environment (``THROTTLE_INGRESS__LISTEN``), ``--set
ingress.listen=…``. Invariant: where each value came from that is not from the file is known by its key.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, InvalidValueError
from ..files.reading import read_bytes, refuse_silent
from ..files.toml_reading import parse_toml
from ..quotas.units import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ENVIRONMENT_PREFIX = "THROTTLE_"
_ENVIRONMENT_SEPARATOR = "__"
_ALWAYS_TEXT = ".password"
_SECRET = re.compile(r"password|jaas|token", re.IGNORECASE)
"""The words in the name of an option that may hold a secret: if the option has no =, the text after the key is not
shown."""

Toml = dict[str, Any]
_MAX_BYTES = 2**20


def read_document(path: Path) -> tuple[Toml, str]:
    """Return the document, and its text. Raises ConfigurationError if the file is missing, unreadable, no TOML (with
    the line), or its disk hangs."""
    refuse_silent(path)
    content = read_bytes(path, most_bytes=_MAX_BYTES)
    return parse_toml(content, source=str(path)), content.decode()


def override(document: Toml, overrides: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Replace single keys of `document` in place; return where each came from, by key path.

    Raises ConfigurationError for an override that is not ``key.path=value`` or leads nowhere.
    """
    origins: dict[str, str] = {}
    problems: list[str] = []
    for origin, path, text in (*_from_environment(environ), *_from_options(overrides, problems)):
        try:
            value = _toml_value(text)
            # A password of digits alone is no number.
            is_text = path.endswith(_ALWAYS_TEXT) and not isinstance(value, str)
            _assign(document, path.split("."), text if is_text else value)
            origins[path] = origin
        except InvalidValueError as error:
            problems.append(f"{origin}: {path}: {error}")
    if problems:
        raise ConfigurationError(problems)
    return origins


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        (name, name.removeprefix(ENVIRONMENT_PREFIX).lower().replace(_ENVIRONMENT_SEPARATOR, "."), text)
        for name, text in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and _ENVIRONMENT_SEPARATOR in name
    ]


def _from_options(overrides: Sequence[str], problems: list[str]) -> list[tuple[str, str, str]]:
    found = []
    for option in overrides:
        path, separator, text = option.partition("=")
        if separator and path.strip():
            found.append(("--set", path.strip(), text))
        else:
            told = "a secret without =" if _SECRET.search(option) else shown(option)
            problems.append(f"--set: expected key.path=value, found {told}")
    return found


def _toml_value(text: str) -> Any:
    """Return a TOML value if it is one (101, true, "text"), else the text itself: addresses need no quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    # No TOML, a number of more than 4300 digits; and brackets in brackets, a thousand deep.
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def _assign(document: Toml, keys: Sequence[str], value: Any) -> None:
    parent: Any = document
    for key in keys[:-1]:
        parent = parent.setdefault(key, {}) if isinstance(parent, dict) else _item(parent, key)
    if isinstance(parent, dict):
        parent[keys[-1]] = value
    else:
        _item(parent, keys[-1])
        parent[int(keys[-1])] = value


def _item(parent: Any, key: str) -> Any:
    if not isinstance(parent, list):
        raise InvalidValueError(f'there is no table that holds "{key}"')
    if not (re.fullmatch(r"[0-9]{1,4}", key) and int(key) < len(parent)):
        raise InvalidValueError(f'expected a position below {len(parent)}, found "{key}"')
    return parent[int(key)]
