from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.http.trust import Trust

TRUST = Trust(["kafka-101", "*.kafka.svc.cluster.local", "Throttle.Example.com."])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9404",
        "10.244.3.7:9404",  # probes and Prometheus ask by the pod's address
        "[::1]",
        "[2001:db8::7]:9404",
        "localhost",
        "LOCALHOST:9404",
        "kafka-101:9404",
        "kafka-101.",
        "throttle.example.com",
        "kafka-0.kafka.svc.cluster.local:9404",
    ],
)
def test_ours(host: str) -> None:
    assert TRUST.is_our_name(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "kafka-101.evil.example",
        "evilkafka-101",
        "localhost.evil.example",
        "kafka.svc.cluster.local",
        "evil.kafka.svc.cluster.local.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "127.0.0.1:9404:1",
        "[::1",
        "",
        " localhost",
        "*",
    ],
)
def test_not_ours(host: str) -> None:
    assert not TRUST.is_our_name(host)


def test_any_name_where_an_operator_says_so() -> None:
    assert Trust(["*"]).is_our_name("evil.example")
    assert not Trust(["*"]).is_our_name("a/b")


@pytest.mark.parametrize(
    ("method", "origin", "fetch_site", "host", "may"),
    [
        ("POST", "", "", "localhost:9404", True),  # curl, our own commands
        ("POST", "http://localhost:9404", "", "localhost:9404", True),
        ("POST", "http://localhost:9404", "same-origin", "localhost:9404", True),
        ("POST", "https://throttle.example.com", "", "throttle.example.com", True),  # behind a proxy that ends TLS
        ("POST", "https://throttle.example.com:443", "", "throttle.example.com", True),
        ("POST", "", "none", "localhost:9404", True),
        ("POST", "http://localhost:3000", "", "localhost:9404", False),
        ("POST", "http://localhost", "", "localhost:9404", False),
        ("POST", "https://evil.example", "", "localhost:9404", False),
        ("POST", "null", "", "localhost:9404", False),
        ("POST", "file://", "", "localhost:9404", False),
        ("POST", "http://localhost:9404", "same-site", "localhost:9404", False),
        ("POST", "", "cross-site", "localhost:9404", False),
        ("PUT", "https://evil.example", "", "localhost:9404", False),
        ("DELETE", "https://evil.example", "", "localhost:9404", False),
        ("GET", "https://evil.example", "cross-site", "localhost:9404", True),  # a link in a wiki
        ("HEAD", "https://evil.example", "cross-site", "localhost:9404", True),
    ],
)
def test_who_may_change_something(method: str, origin: str, fetch_site: str, host: str, *, may: bool) -> None:
    assert TRUST.may_change(method, origin=origin, fetch_site=fetch_site, host=host) is may


@given(st.text(), st.text(), st.text())
def test_no_words_break_it(host: str, origin: str, site: str) -> None:
    assert TRUST.is_our_name(host) in (True, False)
    assert TRUST.may_change("POST", origin=origin, fetch_site=site, host=host) in (True, False)
    assert not TRUST.may_change("POST", origin=origin, fetch_site="cross-site", host=host)
