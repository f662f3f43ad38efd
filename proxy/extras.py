"""What is said where a package is missing that one of this distribution's extras brings."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Not by the distribution's name: it is in no registry, and whatever comes to have that name there is another's."""
    return f"pip install '.[{extra}]' in this project's folder, or with its wheel's path for the dot"
