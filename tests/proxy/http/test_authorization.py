"""Which token files are taken, and whom a token lets in."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.http import authorization
from proxy.http.authorization import LOOK_SECONDS, BearerToken, Trust, read_token

from ..hanging_disk import hanging_disk
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


TOKEN = "0123456789abcdef-secret"


def write(path: Path, content: str, mode: int) -> None:
    path.write_text(content)
    path.chmod(mode)


async def eventually(true: Callable[[], bool]) -> None:
    """Within ten looks."""
    with trio.fail_after(10 * LOOK_SECONDS):
        while not true():  # noqa: ASYNC110 - a file has no event
            await trio.sleep(0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    write(path, f"{TOKEN}\n", 0o640)
    return path


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer   {TOKEN} ", True),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer", False),
        ("Bearer \0", False),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        ("", False),
        ("Bearer ü" + "\xff" * 40, False),
    ],
)
def test_only_the_token_lets_in(path: Path, authorization: str, *, admitted: bool) -> None:
    token = BearerToken.open(path, RecordedLog())
    assert token.admits(authorization) is admitted


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (TOKEN, 0o644, "expected permissions that keep others out, found 0644"),
        (TOKEN, 0o602, "expected permissions that keep others out, found 0602"),
        ("short", 0o600, "expected 16 to 4096 characters, found 5"),
        ("", 0o600, "expected 16 to 4096 characters, found 0"),
        ("x" * 5000, 0o600, "expected 16 to 4096 characters, found"),
        (f"{TOKEN}\n{TOKEN}", 0o600, "expected one token of letters"),
        (f"Bearer {TOKEN}", 0o600, "expected one token of letters"),
    ],
)
def test_what_is_no_token_is_refused_without_being_shown(path: Path, content: str, mode: int, problem: str) -> None:
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(ConfigurationError) as refused:
        read_token(path)
    assert str(refused.value).startswith(f"http.token_file: {path}: {problem}")
    assert TOKEN not in str(refused.value)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path, problem in ((tmp_path / "pipe", "expected a file"), (tmp_path / "none", "cannot be read"),
                          (tmp_path, "expected a file")):  # fmt: skip
        with pytest.raises(ConfigurationError, match=problem):
            read_token(path)


async def test_a_new_token_takes_the_place_of_the_old_and_a_wrong_file_lets_nobody_in(path: Path) -> None:
    """Threads take real time: the clock jumps only when they have had some."""
    log = RecordedLog()
    token = BearerToken.open(path, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(token.run)
        write(path, "another-token-of-some-length", 0o640)
        await eventually(lambda: token.admits("Bearer another-token-of-some-length"))
        assert not token.admits(f"Bearer {TOKEN}")
        write(path, "another-token-of-some-length", 0o644)
        await eventually(lambda: not token.is_known)
        assert not token.admits("Bearer another-token-of-some-length")
        assert not token.admits("Bearer \0")
        await trio.sleep(2.5 * LOOK_SECONDS)
        nursery.cancel_scope.cancel()
    assert log.events == ["http_token_refused"]


def test_a_disk_that_hangs_keeps_no_start_waiting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hanging_disk(monkeypatch), pytest.raises(ConfigurationError) as raised:
        BearerToken.open(path, RecordedLog())
    assert str(raised.value) == f"http.token_file: {path}: cannot be read: no answer within 0.05 s"


async def test_a_disk_that_hangs_admits_nobody_until_it_answers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the token is still there nobody knows; the last one let in for as long as it hung."""
    answers = threading.Event()

    def hang(found: Path) -> bytes:
        answers.wait(20.0)
        return read_token(found)

    monkeypatch.setattr(authorization, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(authorization, "READ_SECONDS", 0.05)
    log = RecordedLog()
    token = BearerToken.open(path, log)
    monkeypatch.setattr(authorization, "read_token", hang)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(token.run)
        await eventually(lambda: not token.is_known)
        await trio.sleep(0.3)
        assert [line["error"] for line in log.lines] == [
            f"http.token_file: {path}: cannot be read: no answer within 0.05 s"
        ]
        answers.set()
        await eventually(lambda: token.admits(f"Bearer {TOKEN}"))
        nursery.cancel_scope.cancel()


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
