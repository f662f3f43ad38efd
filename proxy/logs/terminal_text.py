"""Text for people: control characters are escaped, and a URL shows no password.

Topic names, client ids and errors come from the wire, and any peer can make them up: ESC ] 52 writes
to the clipboard of the operator who looks, ESC [ 2 J clears the screen, U+202E turns a line around. Every name goes
through `printable` where a table, a message or a log line for people is made; JSON is for programs and says `\u001b`
by itself.

A password in a URL ends up in terminals, logs and tickets. Nothing that the sidecar or its commands ask takes one, so a
URL that has one is refused; the refusal names the server alone (`without_user`).

Invariant: the result of `printable` has no control character and nothing invisible in it, and reads as before if there
was none.
"""

from __future__ import annotations

import re
from typing import Any

MAX_CHARACTERS = 8192
"""The most characters of a text; Kafka's longest topic name has 249."""
LAYOUT = "\n\t"
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/*)?.*@", re.DOTALL)
"""The user part of a URL, to the last at sign: an unescaped password may contain slashes, colons and at signs. A user
without a scheme before it is taken for a scheme, and a password is hidden all the same."""


def printable(text: str, *, keep: str = "", most: int = MAX_CHARACTERS) -> str:
    """Return `text` with every character that does not print as `\\xNN` or `\\uNNNN`, but those in `keep` (line breaks
    of a message of ours). A text longer than `most` ends with how much is left out.
    """
    if len(text) > most:
        return f"{printable(text[:most], keep=keep)}… ({len(text) - most} characters more)"
    if text.isprintable():
        return text
    return "".join(shown if shown.isprintable() or shown in keep else _escape(shown) for shown in text)


def printable_lines(text: str) -> str:
    """Return a message of ours that contains names, escaped, with its line breaks and in full length."""
    return printable(text, keep=LAYOUT, most=len(text))


def printable_answer(answer: Any) -> Any:
    """Return an answer, decoded from JSON, with its texts as they are to be shown. In a line of ours a name cannot
    begin another: its line breaks are escaped as well."""
    if isinstance(answer, str):
        return printable(answer)
    if isinstance(answer, dict):
        return {printable(key): printable_answer(value) for key, value in answer.items()}
    return [printable_answer(each) for each in answer] if isinstance(answer, list) else answer


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def names_user(url: str) -> bool:
    """Return True if there is a user in it, maybe with a password; no server's address has an at sign."""
    return "@" in url


def without_user(text: str) -> str:
    """Return ``http://…@kafka-101:9404`` of ``http://admin:secret@kafka-101:9404``; any other text as it is."""
    found = _USER.match(text)
    if found is None:
        return text
    scheme = found[1] if found[1] and found[1].endswith("//") else ""
    return f"{scheme}…@{text[found.end() :]}"
