"""The errors an operator can cause, by their remedies; no layer below the edge raises or knows these.

Invariant: the text of a `ConfigurationError` is ready to print: it names the file, the key path, the
expected and the found value, and needs no traceback beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ConfigurationError(Exception):
    """A file, an override or an address the operator gave is wrong; every problem found is in `problems`."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class ClusterError(ConfigurationError):
    """No broker answers, or not as needed; the message names the question and the broker."""


class UnreachableError(Exception):
    """No sidecar answers at a URL, or not as one; the message names the URL and is ready to print."""


class InvalidValueError(ValueError):
    """A value that cannot be read; the message has the expected and the found text, not yet the place."""


def beginning(text: str, most: int) -> str:
    """Shorten a text for a message: its first `most` characters, and how many more there are."""
    return text if len(text) <= most else f"{text[:most]}… and {len(text) - most} more characters"
