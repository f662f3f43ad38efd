"""What iptables has of the guard's, by what it lists: also after a change that it took a part of, and one by others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from operating.guard.kernel import PacketFilter, RouteLocalnet
from operating.guard.rules import Rules
from operating.guard.ways import Detour, Ways
from proxy.config.settings import Address
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_WAYS = Ways(
    101,
    (
        Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False),
        Detour("fd00::1", 9092, Address("fd00::2", 9092), leaves_host=True),
    ),
)
_LISTS = """#!/bin/sh
cat "{folder}/$(basename "$0") $4" 2>/dev/null || true
"""
_RESTORES = r"""#!/bin/sh
read table
if [ "$(basename "$0") $table" = "{refused}" ]; then echo "no" >&2; exit 1; fi
sed -n -e 's/^:\([^ ]*\) .*/-N \1/p' -e 's/^-I \([^ ]*\) 1 /-A \1 /' -e '/^-A/p' \
    > "{folder}/$(basename "$0" -restore) ${{table#\*}}"
"""


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where programs that stand in for iptables keep a file for each table. They refuse nothing yet."""
    for name in ("iptables", "ip6tables"):
        _write(tmp_path / name, _LISTS.format(folder=tmp_path))
    refuse(tmp_path, "nothing")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    for name in ("all", "default", "lo", "eth0"):
        (tmp_path / "conf" / name).mkdir(parents=True)
        (tmp_path / "conf" / name / "route_localnet").write_text("0\n")
    return tmp_path / "conf" / "all" / "route_localnet"


@pytest.fixture
def packet_filter(tables: Path, setting: Path) -> PacketFilter:
    assert tables.is_dir()
    return PacketFilter(_WAYS, RouteLocalnet(setting.parents[1]))


def refuse(folder: Path, refused: str) -> None:
    for name in ("iptables-restore", "ip6tables-restore"):
        _write(folder / name, _RESTORES.format(refused=refused, folder=folder))


def _write(file: Path, script: str) -> None:
    file.write_text(script, "utf-8")
    file.chmod(0o755)


def test_rules_of_others_need_not_be_text(packet_filter: PacketFilter, tables: Path) -> None:
    """A comment is bytes."""
    for name in ("iptables", "ip6tables"):
        other = r"printf -- '-A INPUT -m comment --comment \377 -j ACCEPT\n'"
        _write(tables / name, f"{_LISTS.format(folder=tables)}{other}\n")
    packet_filter.put(Rules.AROUND)
    assert packet_filter.intact()
    packet_filter.put(Rules.NOTHING)


def test_a_program_that_cannot_be_started_is_a_refusal(
    packet_filter: PacketFilter, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while there is no memory for another process, which may be why the sidecar died."""
    monkeypatch.setenv("PATH", str(tables))
    (tables / "iptables").write_bytes(b"\0 no program")
    with pytest.raises(ConfigurationError, match="iptables: cannot be run: "):
        packet_filter.put(Rules.AROUND)


def test_what_is_taken_is_intact(packet_filter: PacketFilter) -> None:
    for rules in (Rules.STANDBY, Rules.AROUND, Rules.BACK):
        packet_filter.put(rules)
        assert packet_filter.leads_around == (rules is Rules.AROUND)
        assert packet_filter.intact()


@pytest.mark.parametrize(
    ("refused", "leads"),
    [
        ("iptables-restore *nat", False),
        ("iptables-restore *filter", True),
        ("ip6tables-restore *nat", True),
        ("ip6tables-restore *filter", True),
    ],
)
def test_traffic_goes_around_from_the_first_table_that_leads_it_there(
    packet_filter: PacketFilter, tables: Path, refused: str, *, leads: bool
) -> None:
    packet_filter.put(Rules.STANDBY)
    refuse(tables, refused)
    with pytest.raises(ConfigurationError, match="failed: no"):
        packet_filter.put(Rules.AROUND)
    assert packet_filter.leads_around == leads
    assert not packet_filter.intact()


@pytest.mark.parametrize(("refused", "leads"), [("iptables-restore *nat", True), ("ip6tables-restore *nat", True)])
def test_traffic_goes_around_until_the_last_table_has_gone_back(
    packet_filter: PacketFilter, tables: Path, refused: str, *, leads: bool
) -> None:
    packet_filter.put(Rules.AROUND)
    refuse(tables, refused)
    with pytest.raises(ConfigurationError):
        packet_filter.put(Rules.BACK)
    assert packet_filter.leads_around == leads


@pytest.mark.parametrize("table", ["iptables nat", "ip6tables filter"])
def test_what_others_take_away_is_missed(packet_filter: PacketFilter, tables: Path, table: str) -> None:
    packet_filter.put(Rules.AROUND)
    (tables / table).write_text("-P OUTPUT ACCEPT\n")
    assert not packet_filter.intact()
    (tables / "ip6tables nat").unlink()
    (tables / "iptables nat").write_text("")
    assert not packet_filter.intact()
    assert not packet_filter.leads_around


def test_the_kernels_setting_is_kept_and_given_back(packet_filter: PacketFilter, setting: Path) -> None:
    packet_filter.put(Rules.STANDBY)
    assert setting.read_text() == "1\n"
    setting.write_text("0\n")
    assert not packet_filter.intact()
    packet_filter.put(Rules.STANDBY)
    assert (setting.read_text(), packet_filter.intact()) == ("1\n", True)
    packet_filter.put(Rules.NOTHING)
    assert setting.read_text() == "0\n"


@pytest.mark.parametrize("device", ["all", "eth0"])
def test_a_setting_of_somebody_elses_stays(packet_filter: PacketFilter, setting: Path, device: str) -> None:
    theirs = setting.parents[1] / device / "route_localnet"
    theirs.write_text("1\n")
    packet_filter.put(Rules.STANDBY)
    assert packet_filter.intact()
    packet_filter.put(Rules.NOTHING)
    assert [theirs.read_text(), setting.read_text()] == ["1\n", "1\n" if device == "all" else "0\n"]


def test_a_setting_that_cannot_be_set_is_refused_with_the_command(packet_filter: PacketFilter, setting: Path) -> None:
    """As in a container, whose /proc/sys is read-only."""
    setting.unlink()
    setting.mkdir()
    with pytest.raises(ConfigurationError, match=r"run as root: sysctl -w net\.ipv4\.conf\.all\.route_localnet=1"):
        packet_filter.put(Rules.STANDBY)
