"""Whatever command is given a URL: a password in it is in nothing that it prints, and none is no default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

RATE = "leader.replication.throttled.rate"
URL = "http://admin:geheim@kafka-101:9404"


THAT_ASK = pytest.mark.parametrize(
    "arguments",
    [
        ["status", "--once"],
        ["status", "--json"],
        ["health"],
        ["set", RATE, "5MiB/s"],
        ["verify", "move.json", "--bootstrap", "kafka-101:9092"],
    ],
)


@THAT_ASK
def test_no_url_where_one_is_to_be_is_refused(
    sidecar: Callable[..., Result], config: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the sidecar beside, which is another one: `--url "$SIDECAR"` was meant."""
    monkeypatch.chdir(config.parent)
    result = sidecar(*arguments, "--url", "")
    assert result.exit_code == 2
    assert "'--url': expected a URL, found nothing" in result.output


@THAT_ASK
def test_a_password_in_a_url_is_refused_and_not_shown(
    sidecar: Callable[..., Result], config: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config.parent)
    result = sidecar(*arguments, "--url", URL)
    assert result.exit_code == 2
    assert "'--url': expected a URL without a user and a password, found http://…@kafka-101:9404" in result.output
    assert "THROTTLE_TOKEN_FILE" in result.output
    assert "geheim" not in result.output


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("http://admin:geheim@kafka-101:9404", 'found a user in "http://…@kafka-101:9404" (a token'),
        ("http://admin:ge/heim@kafka-101:9404", 'found a user in "http://…@kafka-101:9404" (a token'),
        ("admin:geheim@kafka-101:9404", 'found a user in "…@kafka-101:9404" (a token'),
    ],
)
def test_nor_in_a_fleet(sidecar: Callable[..., Result], tmp_path: Path, written: str, said: str) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'[[sidecars]]\nbroker = 101\nurl = "{written}"\nquotas = "q.toml"\n')
    for command in (["status", "--once"], ["set", RATE, "5MiB/s"]):
        result = sidecar(*command, "--fleet", fleet)
        assert result.exit_code == 1
        assert f"sidecars[0].url: expected a URL like http://kafka-101:9404, {said}" in result.output
        assert "heim" not in result.output
