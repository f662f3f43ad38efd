"""Text for terminals: what a terminal would obey instead of show is written as an escape.

Topic names, client ids and errors come from the wire, and whoever may open a connection makes them up: ESC ] 52 writes
to the clipboard of the operator who looks, ESC [ 2 J clears the screen, U+202E turns a line around. Every name goes
through `printable` where a table, a message or a log line for people is made; JSON is for programs and says `\\u001b`
by itself.

Invariant: what `printable` returns has no control character and nothing invisible in it, and reads as before if there
was none.
"""

from __future__ import annotations

MOST_CHARACTERS = 8192
"""Of one text; Kafka's longest topic name has 249."""
LAYOUT = "\n\t"


def printable(text: str, *, keep: str = "", most: int = MOST_CHARACTERS) -> str:
    """Return `text` with every character that does not print as `\\xNN` or `\\uNNNN`, but those in `keep` (line breaks
    of a message of ours). What is longer than `most` ends with how much is left out.
    """
    if len(text) > most:
        return f"{printable(text[:most], keep=keep)}… ({len(text) - most} characters more)"
    if text.isprintable():
        return text
    return "".join(shown if shown.isprintable() or shown in keep else _escape(shown) for shown in text)


def printable_lines(text: str) -> str:
    """Return a message of ours that contains names, escaped, with its line breaks and in full length."""
    return printable(text, keep=LAYOUT, most=len(text))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
