from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operating.commands.health import url_of
from proxy.config.settings import Address, HttpSettings
from proxy.config.tls_settings import LegSettings
from tests.proxy.fake_sidecar import FakeSidecar, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]


@pytest.fixture
def address() -> Iterator[Address]:
    """Of one that is alive, and draining."""
    answers = {"/healthz": (200, b"ok\n"), "/readyz": (503, b'{"reasons":["draining"]}')}
    with serving(FakeSidecar(answers)) as server:
        yield Address("127.0.0.1", server.server_port)


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [((), 0, "ok\n"), (("--ready",), 1, 'Error: {}/readyz: 503: {{"reasons":["draining"]}}\n')],
)
def test_it_asks_where_the_configuration_says(
    options: tuple[str, ...], status: int, said: str, address: Address, config: Path, sidecar: Sidecar
) -> None:
    config.write_text(config.read_text().replace('[http]\nlisten = "127.0.0.1:0"', f'[http]\nlisten = "{address}"'))
    result = sidecar("health", "--config", config, *options)
    assert (result.exit_code, result.output) == (status, said.format(f"http://{address}"))


def test_an_url_needs_no_configuration(address: Address, sidecar: Sidecar) -> None:
    assert sidecar("health", "--config", "/nowhere", "--url", f"http://{address}/").exit_code == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://x", "ftp://x: expected a URL like http://127.0.0.1:9404"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1: no answer from a sidecar: Connection refused"),
    ],
)
def test_what_is_wrong_is_said(url: str, said: str, sidecar: Sidecar) -> None:
    result = sidecar("health", "--url", url)
    assert result.exit_code == 1
    assert said in result.stderr


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        (Address("0.0.0.0", 9404), "http://127.0.0.1:9404"),
        (Address("::", 9404), "http://[::1]:9404"),
        (Address("10.0.0.1", 80), "http://10.0.0.1:80"),
    ],
)
def test_a_wildcard_is_met_on_loopback(listen: Address, url: str) -> None:
    assert url_of(HttpSettings(listen)) == url
    assert url_of(HttpSettings(listen, tls=LegSettings("http.listen"))) == url.replace("http:", "https:")
