"""The broker's configuration as the documents show it, as far as it is told without a broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SNIPPETS = [
    (path.name, text)
    for path in sorted(DOCS.glob("*.md"))
    for text in re.findall(r"```properties\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    if re.search(r"^listeners=", text, re.MULTILINE)
]
OF_KAFKA = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}
"""Listener names that need no entry, since they are protocols."""


def names(listeners: str) -> set[str]:
    return {each.partition("://")[0] for each in listeners.split(",")}


def test_there_are_some() -> None:
    assert SNIPPETS


@pytest.mark.parametrize(("document", "text"), SNIPPETS)
def test_every_listener_has_a_protocol(document: str, text: str) -> None:
    """A broker does not start with a listener of a name that listener.security.protocol.map lacks."""
    written = dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))
    mapped = {each.partition(":")[0] for each in written.get("listener.security.protocol.map", "").split(",")}
    known = mapped | (OF_KAFKA if mapped == {""} else set())
    assert names(written["listeners"]) <= known, document
    assert names(written["advertised.listeners"]) <= names(written["listeners"]), document
    assert written.get("inter.broker.listener.name", "PLAINTEXT") in names(written["advertised.listeners"]), document
