"""docs/configuration.md: every key of proxy.toml with its default, no other, and a file that is accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.config.names_settings import KEYS
from proxy.config.settings import EgressMode, Policy, Settings, load_settings
from proxy.config.tables import keys_of
from proxy.logs.log_settings import LogFormat, LogLevel

if TYPE_CHECKING:
    from enum import StrEnum

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")


def documented() -> dict[str, str]:
    """Default by dotted key, "" for none."""
    found = {}
    for table, section in re.findall(r"^## \[(\w+)\]\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL):
        for key, default in re.findall(r"^\| `([\w.]+)` \| (?:`([^`]+)`)? ?\|", section, re.MULTILINE):
            found[f"{table}.{key}"] = default
    return found


def declared(table: type, within: str = "") -> dict[str, str]:
    """The same of a table and those in it."""
    found = {}
    for name, key in keys_of(table).items():
        table = key.of[0] if type(key.of) is tuple else key.of
        if isinstance(table, type):
            found |= declared(table, f"{within}{name}.")
        else:
            found[f"{within}{name}"] = key.written_default
    return found


def test_every_key_and_its_default_is_there_and_no_other() -> None:
    keys = declared(Settings)
    del keys["path"], keys["names"]  # the file's own, and Kafka's keys, of which the first word is enough
    keys |= {f"names.{key.partition('.')[0]}": "" for key in KEYS}
    keys["quotas.state"] = ""  # it is beside quotas.file, wherever that is
    assert documented() == keys


def test_what_it_shows_is_accepted(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "proxy.toml"
    path.write_text(shown, "utf-8")
    assert load_settings(path).broker.id == 101


@pytest.mark.parametrize("choices", [Policy, LogFormat, LogLevel, EgressMode])
def test_every_choice_is_there(choices: type[StrEnum]) -> None:
    assert all(f"`{choice.value}`" in TEXT for choice in choices)
