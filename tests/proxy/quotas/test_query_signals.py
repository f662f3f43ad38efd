"""[auto.signals.NAME] as it is written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from proxy.errors import ConfigurationError
from proxy.quotas import effective, parse_quotas
from proxy.quotas.query_signals import QuerySignal, Signal

GOOD = {"url": '"http://prometheus:9090/"', "query": '"max(p99)"', "target": "0.05"}


def written(name: str = "p99", **values: str | None) -> bytes:
    table = {key: value for key, value in {**GOOD, **values}.items() if value is not None}
    return f"[auto.signals.{name}]\n".encode() + "\n".join(f"{key} = {value}" for key, value in table.items()).encode()


def test_a_signal_with_its_query_and_its_target() -> None:
    found = effective(parse_quotas(written()), 101, datetime.now(UTC)).signals
    assert found == (QuerySignal("p99", "http://prometheus:9090", "max(p99)", 0.05),)


@pytest.mark.parametrize("name", Signal)
def test_the_sidecars_own_names_are_taken(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: .*not one of the sidecar's own"):
        parse_quotas(written(name))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (written("network"), "auto.signals.network: expected a name .* not one of the sidecar's own"),
        (written("P99"), "auto.signals.P99: expected a name of small letters"),
        (written(url=None), "auto.signals.p99.url: expected a URL like .* found none"),
        (written(url='"prometheus:9090"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"file:///etc/passwd"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"http://user:secret@prometheus"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"http://[::1"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"http://prometheus:99999"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"http://prometheus/?query=1"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"http://prometheus:9090?"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"http://prometheus:9090/#"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"""http://prometheus:9090\n"""'), r"auto.signals.p99.url: expected a URL .* found .*9090\\n"),
        (written(url='"http://prometheus\\t:9090"'), "auto.signals.p99.url: expected a URL"),
        (written(url='"http://prometheus/\\u007F"'), "auto.signals.p99.url: expected a URL"),
        (written(query='" "'), "auto.signals.p99.query: expected a query"),
        (written(query='"' + "x" * 5000 + '"'), "auto.signals.p99.query: expected at most 4096 characters, found 5000"),
        (written(target="0"), "auto.signals.p99.target: expected a number above 0, .* found 0"),
        (written(target="inf"), "auto.signals.p99.target: expected a number above 0"),
        (written(target="true"), "auto.signals.p99.target: expected a number above 0, .* found true"),
        (written(traget="1"), "auto.signals.p99.traget: unknown key; .*did you mean target"),
        (b"[auto]\nsignal = 1", "auto.signal: unknown key; expected signals .*did you mean signals"),
        (b"auto = 1", "auto: expected a table, found 1"),
        (b"[auto]\nsignals = 1", "auto.signals: expected tables"),
        (b"[auto.signals]\np99 = 1", "auto.signals.p99: expected a table"),
        (
            b"".join(written(f"p{number}") + b"\n" for number in range(17)),
            "auto.signals: expected at most 16, found 17",
        ),
    ],
)
def test_what_is_refused_names_the_key(content: bytes, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"quotas.toml: {problem}"):
        parse_quotas(content)
