from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from proxy.config.settings import load_settings
from proxy.config.settings_file import override
from proxy.errors import ConfigurationError
from proxy.logs.log_settings import LogLevel

from ..hanging_disk import hanging_disk

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
[broker]
id = 101
[[egress.peers]]
broker = 102
listen = "127.0.102.1:9092"
upstream = "kafka-102:9092"
[log]
level = "info"
"""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("a.b=101", 101),
        ("a.b=true", True),
        ('a.b="text"', "text"),
        ("a.b=text", "text"),
        ("a.b=0.0.0.0:9092", "0.0.0.0:9092"),
        ("a.b=[::1]:9092", "[::1]:9092"),
        ("a.b=", ""),
        ("a.b=x=y", "x=y"),
        ("a.b=1\nc=2", "1\nc=2"),
        ("a.b=[1, 2]", [1, 2]),
    ],
)
def test_a_value_is_toml_or_else_text(option: str, value: object) -> None:
    document: dict[str, object] = {}
    assert override(document, [option], {}) == {"a.b": "--set"}
    assert document == {"a": {"b": value}}


@pytest.mark.parametrize(("written", "password"), [("123456", "123456"), ("true", "true"), ('"text"', "text")])
def test_a_password_is_text_though_it_may_look_like_something_else(written: str, password: str) -> None:
    document: dict[str, object] = {}
    override(document, [], {"THROTTLE_NAMES__SASL__PASSWORD": written})
    assert document == {"names": {"sasl": {"password": password}}}


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(FILE)
    environ = {
        "THROTTLE_LOG__LEVEL": "debug",
        "THROTTLE_BROKER__ID": "7",
        "THROTTLE_IMAGE": "not a key",
        "PATH": "x",
    }
    settings = load_settings(path, ["broker.id=8", "egress.peers.0.upstream=a:1"], environ)
    assert settings.log.level is LogLevel.DEBUG
    assert settings.broker.id == 8
    assert settings.egress is not None
    assert str(settings.egress.peers[0].upstream) == "a:1"


@pytest.mark.parametrize(
    ("options", "environ", "problem"),
    [
        (["broker.id=x"], {}, '--set: broker.id: expected an integer, found "x"'),
        ([], {"THROTTLE_BROKER__ID": "x"}, 'THROTTLE_BROKER__ID: broker.id: expected an integer, found "x"'),
        (["egress.peers.0.listen=x"], {}, '--set: egress.peers[0].listen: expected host:port, found "x"'),
        (["foo.bar=1"], {}, "--set: foo.bar: unknown key; expected one of broker"),
        (["log.foo.bar=1"], {}, "--set: log.foo.bar: unknown key; expected one of format, level"),
        (["htp.listen=1"], {}, "--set: htp.listen: unknown key; expected one of broker"),
        ([], {"THROTTLE_FOO__BAR": "1"}, "THROTTLE_FOO__BAR: foo.bar: unknown key"),
        (["broker"], {}, '--set: expected key.path=value, found "broker"'),
        (["=1"], {}, '--set: expected key.path=value, found "=1"'),
        (["names.sasl.password geheim"], {}, "--set: expected key.path=value, found a secret without ="),
        (["broker.id.x=1"], {}, '--set: broker.id.x: there is no table that holds "x"'),
        (
            ["egress.peers.1.listen=a:1"],
            {},
            '--set: egress.peers.1.listen: expected a position below 1, found "1"',
        ),
        (["egress.peers.x=1"], {}, '--set: egress.peers.x: expected a position below 1, found "x"'),
    ],
)
def test_a_bad_override_is_named_by_where_it_came_from(
    tmp_path: Path, options: list[str], environ: dict[str, str], problem: str
) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(FILE)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, options, environ)
    assert str(caught.value).startswith(problem)


def test_a_position_may_be_replaced_whole() -> None:
    document = {"peers": [1, 2]}
    override(document, ["peers.1=3"], {})
    assert document == {"peers": [1, 3]}


@pytest.mark.parametrize(
    ("table", "option", "meant"),
    [
        ("[igress]", "htp.listen=1", ["ingress", "http"]),
        ("[quotas]\npolcy = 1", "http.lisen=1", ["policy", "listen"]),
    ],
)
def test_what_was_probably_meant_is_said_of_the_file_and_of_an_override(
    tmp_path: Path, table: str, option: str, meant: list[str]
) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(f"{FILE}\n{table}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, [option], {})
    for name in meant:
        assert f"(did you mean {name}?)" in str(caught.value)


@pytest.mark.parametrize("text", ["1" * 5000, "[" * 3000])
def test_what_python_cannot_read_as_a_value_is_the_text_itself(text: str) -> None:
    document: dict[str, object] = {}
    override(document, [f"a={text}"], {"THROTTLE_B__C": text})
    assert document == {"a": text, "b": {"c": text}}


def test_a_disk_that_hangs_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a start nor any command that reads the file."""
    path, began = tmp_path / "proxy.toml", time.monotonic()
    path.write_text(FILE)
    with hanging_disk(monkeypatch), pytest.raises(ConfigurationError) as raised:
        load_settings(path)
    assert time.monotonic() - began < 15  # it hangs for 20 s
    assert str(raised.value) == f"{path}: cannot be read: no answer within 0.05 s"
