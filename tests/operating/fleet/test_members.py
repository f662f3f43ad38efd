"""fleet.toml: what is read of a good one, and what is said of a bad one."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest

from operating.fleet import members
from operating.fleet.members import MAX_SIDECARS, Fleet, SidecarTable, author, load_fleet, local_url
from proxy.errors import ConfigurationError
from tests.proxy.files.test_reading import OfAnotherUser

GOOD = """
token_file = "token"
[[sidecars]]
broker = 101
url = "http://kafka-101:9404/"
[[sidecars]]
broker = 102
url = "https://kafka-102"
token_file = "/run/token"
[[sidecars]]
broker = 103
url = "http://[::1]:9404"
"""


def read(folder: Path, text: str) -> Fleet:
    (folder / "fleet.toml").write_text(text)
    return load_fleet(folder / "fleet.toml")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    fleet = read(tmp_path, GOOD)
    assert fleet.members == (
        SidecarTable(101, "http://kafka-101:9404", tmp_path / "token"),
        SidecarTable(102, "https://kafka-102", Path("/run/token")),
        SidecarTable(103, "http://[::1]:9404", tmp_path / "token"),
    )
    assert fleet.brokers == (101, 102, 103)


ONE = '[[sidecars]]\nbroker = 1\nurl = "http://a"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "sidecars: expected at least one [[sidecars]], found none"),
        ("sidecars = 3", "sidecars: expected a list, found 3"),
        ("sidecars = [3]", "sidecars[0]: expected a table, found 3"),
        (ONE + "[[sidecar]]\n", "sidecar: unknown key; expected one of token_file, sidecars"),
        ('[[sidecars]]\nurl = "http://a"', "sidecars[0].broker: missing"),
        ("[[sidecars]]\nbroker = 1", "sidecars[0].url: missing"),
        ('[[sidecars]]\nbroker = "1"\nurl = "http://a"', 'sidecars[0].broker: expected an integer, found "1"'),
        (ONE + "port = 3", "sidecars[0].port: unknown key; expected one of broker, url, token_file"),
        (ONE + ONE, "sidecars[1].broker: 1 is sidecars[0]'s already"),
        (ONE + ONE.replace("1", "2"), "sidecars[1].url: http://a is sidecars[0]'s already"),
        ('[[sidecars]]\nbroker = 1\nurl = "kafka:9404"', "sidecars[0].url: expected a URL like http://kafka-101:9404"),
        ('[[sidecars]]\nbroker = 1\nurl = "http://a:b"', "sidecars[0].url: expected a URL like http://kafka-101:9404"),
        ("[[sidecars", "not TOML: "),
    ],
)  # fmt: skip
def test_a_problem_names_the_file_and_the_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path / 'fleet.toml'}: {problem}")


def test_an_unknown_key_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"sidecars\[0\]\.quotas: unknown key; .* \(line 4\)$"):
        read(tmp_path, ONE + 'quotas = "a"')


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, ONE + "x = 1\n[[sidecars]]\nbroker = 2\nurl = 'b'\n[y]\n")
    assert len(refused.value.problems) == 3


def test_there_is_a_bound(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"at most {MAX_SIDECARS}"):
        read(tmp_path, ONE * (MAX_SIDECARS + 1))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"fleet\.toml: cannot be read"):
        load_fleet(tmp_path / "fleet.toml")


def test_a_user_without_a_name_is_an_author_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, whose passwd does not have the sidecar's user."""

    def nobody(_: int) -> None:
        raise KeyError("uid not found")

    for name in ("SUDO_USER", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert author() == f"uid {os.getuid()}@{socket.gethostname()}"


def test_a_folder_that_may_not_be_looked_into_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root's own, in which a command is typed as the sidecar's user."""
    monkeypatch.setattr(members, "DEFAULT_CONFIG", OfAnotherUser("proxy.toml"))
    with pytest.raises(ConfigurationError, match=r"^proxy\.toml: cannot be read: Permission denied$"):
        local_url()
