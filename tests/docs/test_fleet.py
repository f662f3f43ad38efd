"""docs/fleet.md: every key of fleet.toml with its default, no other, and a file that is accepted."""

from __future__ import annotations

import re
from pathlib import Path

from operating.fleet.members import SidecarTable, load_fleet
from proxy.config.tables import keys_of

TEXT = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")


def test_every_key_and_its_default_is_there_and_no_other() -> None:
    (section,) = re.findall(r"^## \[\[sidecars\]\]\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    documented = dict(re.findall(r"^\| `([\w.]+)` \| (?:`([^`]+)`)? ?\|", section, re.MULTILINE))
    assert documented == {name: key.written_default for name, key in keys_of(SidecarTable).items()}


def test_what_it_shows_is_accepted(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "fleet.toml"
    path.write_text(shown, "utf-8")
    assert load_fleet(path).brokers[0] == 101
