"""What is typed to start a guard: what is wrong is said, and is not taken for a sidecar that is dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operating.guard.kernel import PacketFilter
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


def test_a_host_that_no_name_can_have_is_named(
    sidecar: Callable[..., Result], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PacketFilter, "put", lambda *_: None)
    result = sidecar("guard", "--config", config, "--set", "ingress.upstream=kafka..101:9092")
    assert result.exit_code == 1
    assert "ingress.upstream: expected a host name whose parts have 1 to 63 characters, found" in result.output


@pytest.mark.parametrize(
    ("option", "typed"),
    [
        *(("--ports", each) for each in ("", "x", "9092,", "0", "65536", "09092", "9092\n-F")),
        *(("--ports", each) for each in ("9092-9094", "9094:9092", "9092:9093:9094")),
        ("--ports", ",".join(map(str, range(9092, 9108)))),
        ("--uid", "-1"),
        ("--uid", "4294967295"),
    ],
)
def test_what_iptables_would_refuse_is_refused_at_the_start(
    sidecar: Callable[..., Result], config: Path, monkeypatch: pytest.MonkeyPatch, option: str, typed: str
) -> None:
    """The rules that have it are made when the sidecar is dead: then it would not be led around, and nobody knew."""
    monkeypatch.setattr(PacketFilter, "put", _never)
    result = sidecar("guard", "--config", config, option, typed)
    assert (result.exit_code, f"'{option}'" in result.output) == (2, True), result.output


@pytest.mark.parametrize("ports", ["9092", "9092,9094", "1:65535,9092", ",".join(map(str, range(9092, 9107)))])
def test_ports_are_those_that_redirect_sh_takes(
    sidecar: Callable[..., Result], config: Path, monkeypatch: pytest.MonkeyPatch, ports: str
) -> None:
    monkeypatch.setattr(PacketFilter, "put", _never)
    result = sidecar("guard", "--config", config, "--ports", ports, "--uid", "4294967294")
    assert (result.exit_code, "it went on" in result.output) == (1, True), result.output


def _never(*_: object) -> None:
    raise ConfigurationError("it went on")
