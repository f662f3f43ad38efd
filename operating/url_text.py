"""URLs in messages: where one is told, a user and a password in it are not.

A password in a URL ends up in terminals, logs and tickets. Nothing that the sidecar or its commands ask takes one, so a
URL that has one is refused; the refusal names the server alone. Pure.
"""

from __future__ import annotations

import re

_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/*)?.*@", re.DOTALL)
"""To the last at sign there is: in a password that nobody escaped there may be slashes, colons and more of them. A
user without a scheme before it is taken for a scheme, and a password is hidden all the same."""


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
