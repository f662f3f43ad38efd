"""A change that iptables takes a part of: what is known of it then."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from operating.guard.decision import Way
from operating.guard.kernel import PartlyTakenError, apply
from operating.guard.ways import Detour, Ways
from proxy.config.settings import Address
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_WAYS = Ways(
    (
        Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False),
        Detour(None, 9092, Address("::1", 19092), leaves_host=False),
    )
)
_RESTORE = """#!/bin/sh
read table
if [ "$(basename "$0") $table" = "{refused}" ]; then echo "no" >&2; exit 1; fi
"""


@pytest.fixture
def iptables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs that stand in for iptables: they list nothing, and refuse nothing yet."""
    for name in ("iptables", "ip6tables"):
        _write(tmp_path / name, "#!/bin/sh\n")
    refuse(tmp_path, "nothing")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def refuse(folder: Path, refused: str) -> None:
    for name in ("iptables-restore", "ip6tables-restore"):
        _write(folder / name, _RESTORE.format(refused=refused))


def _write(file: Path, script: str) -> None:
    file.write_text(script, "utf-8")
    file.chmod(0o755)


def test_what_is_taken_is_no_error(iptables: Path) -> None:
    for way in (Way.AROUND, Way.THROUGH, None):
        apply(_WAYS, way)
    assert len(list(iptables.iterdir())) == 4


@pytest.mark.parametrize(
    ("refused", "partly"),
    [
        ("iptables-restore *nat", False),
        ("iptables-restore *filter", True),
        ("ip6tables-restore *nat", True),
        ("ip6tables-restore *filter", True),
    ],
)
def test_traffic_goes_around_from_the_first_table_that_leads_it_there(
    iptables: Path, refused: str, *, partly: bool
) -> None:
    refuse(iptables, refused)
    with pytest.raises(ConfigurationError, match="it said: no") as raised:
        apply(_WAYS, Way.AROUND)
    assert isinstance(raised.value, PartlyTakenError) == partly


@pytest.mark.parametrize("way", [Way.THROUGH, None])
def test_no_table_of_the_way_back_leads_around(iptables: Path, way: Way | None) -> None:
    refuse(iptables, "ip6tables-restore *filter")
    with pytest.raises(ConfigurationError) as raised:
        apply(_WAYS, way)
    assert not isinstance(raised.value, PartlyTakenError)
