"""What is typed to start a guard: what is wrong is said, and is not taken for a sidecar that is dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operating.guard import kernel
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9404", "htp://127.0.0.1:9404", "http:/127.0.0.1", "http://[::1", "http://a:x"]
)
def test_a_url_that_is_none_is_refused(
    sidecar: Callable[..., Result], config: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Nobody would answer there, and the broker would be led around a sidecar that works."""

    def never(*_: object) -> None:
        raise ConfigurationError("it went on")

    monkeypatch.setattr(kernel, "apply", never)
    result = sidecar("guard", "--config", config, "--url", url)
    assert (result.exit_code, f"found {url!r}" in " ".join(result.output.split())) == (2, True), result.output


def test_a_host_that_no_name_can_have_is_named(
    sidecar: Callable[..., Result], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "apply", lambda *_: None)
    result = sidecar("guard", "--config", config, "--set", "ingress.upstream=kafka..101:9092")
    assert result.exit_code == 1
    assert "ingress.upstream: expected a host name whose parts have 1 to 63 characters, found" in result.output
