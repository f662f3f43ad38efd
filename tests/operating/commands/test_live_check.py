"""``check`` with a sidecar to ask."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.proxy.fake_sidecar import PAGE, ROLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]


def hash_of(config: Path) -> str:
    return hashlib.sha256((config.parent / "quotas.toml").read_bytes()).hexdigest()[:12]


def says(fake: FakeSidecar, hash: str, *, broker: int = 101, **role: object) -> None:  # noqa: A002
    page = {**PAGE, "broker": broker, "quotas": {"hash": hash}, "roles": {"leader": {**ROLE, **role}}}
    fake.content = json.dumps(page).encode()


def test_without_being_told_nobody_is_asked(config: Path, sidecar: Sidecar) -> None:
    """http.listen of the configuration is no address that answers: this would fail."""
    assert sidecar("check", "--config", config).exit_code == 0


def test_one_that_has_this_file_says_so(config: Path, fake: FakeSidecar, sidecar: Sidecar) -> None:
    says(fake, hash_of(config))
    result = sidecar("check", "--config", config, "--url", fake.url)
    assert result.exit_code == 0
    assert result.output.endswith(f"\n\nrunning sidecar {fake.url}: has this quotas file\n")


def test_what_only_it_can_see_is_a_warning(config: Path, fake: FakeSidecar, sidecar: Sidecar) -> None:
    doubts = [{"reason": "no_connection", "text": "nobody is there"}]
    says(fake, "older", broker=102, doubts=doubts, undecoded={"tls": 3})
    result = sidecar("check", "--config", config, "--url", fake.url)
    assert result.exit_code == 0
    assert result.output.splitlines()[-4:] == [
        f"running sidecar {fake.url}: has another quotas file, hash older",
        "warning: running: it is the sidecar of broker 102, not of 101",
        "warning: running: leader: nobody is there",
        "warning: running: leader: 3 passed undecoded (tls), not throttled",
    ]


def test_live_asks_where_the_configuration_says(config: Path, fake: FakeSidecar, sidecar: Sidecar) -> None:
    says(fake, hash_of(config))
    config.write_text(config.read_text().replace("[http]\nlisten = \"127.0.0.1:0\"",
                                                 f"[http]\nlisten = \"0.0.0.0:{fake.server_port}\""))  # fmt: skip
    result = sidecar("check", "--config", config, "--live", "--json")
    assert result.exit_code == 0
    live = json.loads(result.output)["live"]
    assert live["url"] == fake.url
    assert (live["has_these"], live["warnings"], live["error"]) == (True, [], None)


@pytest.mark.parametrize("as_json", [False, True])
def test_one_that_does_not_answer_is_exit_status_3(config: Path, sidecar: Sidecar, *, as_json: bool) -> None:
    url = "http://127.0.0.1:1"
    result = sidecar("check", "--config", config, "--url", url, *(["--json"] if as_json else []))
    assert result.exit_code == 3
    assert f"{url}/throttle: no answer from a sidecar" in result.output
    assert f"{config}: ok" in result.output or json.loads(result.output)["ok"] is True


def test_a_wrong_file_is_exit_status_1_and_nobody_is_asked(config: Path, fake: FakeSidecar, sidecar: Sidecar) -> None:
    (config.parent / "quotas.toml").write_text("[nonsense]")
    assert sidecar("check", "--config", config, "--url", fake.url).exit_code == 1
    assert fake.paths == []
