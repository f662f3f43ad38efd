"""The user and the password in `sasl.jaas.config`, as Java's clients have them in one line. Pure."""

from __future__ import annotations

import re

_ENTRY = re.compile(r'(?P<key>username|password)="(?P<value>(?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
"""A quote or a backslash inside a value is written with a backslash before it."""


def jaas_entries(text: str) -> dict[str, str]:
    """Return ``username`` and ``password``, or the one of them that is there."""
    return {found["key"]: _ESCAPED.sub(r"\1", found["value"]) for found in _ENTRY.finditer(text)}
