"""A pair of good files, and the command line called in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from operating.cli import cli
from tests.proxy.fake_sidecar import FakeSidecar, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROXY = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:19092"
[http]
listen = "127.0.0.1:0"
"""
QUOTAS = """
[brokers.default]
leader.replication.throttled.rate = "20MB/s"
[topics.orders]
leader.replication.throttled.replicas = "0:101,1:102"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "quotas.toml").write_text(QUOTAS)
    path = tmp_path / "proxy.toml"
    path.write_text(PROXY)
    return path


@pytest.fixture
def sidecar() -> Callable[..., Result]:
    """`throttle-sidecar ARGS…`; what it prints and its exit code."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="throttle-sidecar")

    return call


@pytest.fixture
def fake() -> Iterator[FakeSidecar]:
    with serving(FakeSidecar()) as server:
        yield server
