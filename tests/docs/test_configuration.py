"""docs/configuration.md: every key of proxy.toml with its default, no other, and a file that is accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy.config import settings_file
from proxy.config.settings import EgressMode, Policy, load_settings
from proxy.logs.log_settings import LogFormat, LogLevel

if TYPE_CHECKING:
    from enum import StrEnum

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
TABLES: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "broker": (settings_file.BrokerTable,),
    "ingress": (settings_file.IngressTable,),
    "egress": (settings_file.EgressTable, settings_file.TransparentEgressTable),
    "egress.peers": (settings_file.PeerTable, settings_file.NamedPeerTable),
    "quotas": (settings_file.QuotasTable,),
    "names": (settings_file.NamesTable,),
    "http": (settings_file.HttpTable,),
    "journal": (settings_file.JournalTable,),
    "log": (settings_file.LogTable,),
    "limits": (settings_file.LimitsTable,),
}


def documented() -> dict[str, str]:
    """Default by dotted key, "" for none."""
    found = {}
    for table, section in re.findall(r"^## \[(\w+)\]\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL):
        for key, default in re.findall(r"^\| `([\w.]+)` \| (?:`([^`]+)`)? ?\|", section, re.MULTILINE):
            found[f"{table}.{key}"] = default
    return found


def read_by_the_code() -> dict[str, str]:
    found: dict[str, str] = {}
    for table, structs in TABLES.items():
        for struct in structs:
            for field in msgspec.structs.fields(struct):
                default: Any = "" if field.default is msgspec.NODEFAULT else field.default
                default = list(default) if isinstance(default, tuple) else default
                default = str(default).lower() if isinstance(default, bool) else default
                if field.name != "peers":
                    key = f"{table}.{field.name}"
                    found[key] = found.get(key) or str(default)
    return found


def test_every_key_and_its_default_is_there_and_no_other() -> None:
    assert documented() == read_by_the_code()


def test_every_table_is_there() -> None:
    assert {table for table in TABLES if "." not in table} == set(settings_file.TABLES)


def test_what_it_shows_is_accepted(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "proxy.toml"
    path.write_text(shown, "utf-8")
    assert load_settings(path).broker.id == 101


@pytest.mark.parametrize("choices", [Policy, LogFormat, LogLevel, EgressMode])
def test_every_choice_is_there(choices: type[StrEnum]) -> None:
    assert all(f"`{choice.value}`" in TEXT for choice in choices)
