"""What one HTTP connection may do, over real sockets: every attack costs that connection alone, and is counted."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.http.request_checks import Bounds
from tests.uncollected import uncollected

from .serving import GET, PATIENT_SECONDS, Serving, heard, one_answer, serving

BOUNDS = Bounds()
SHORT_SECONDS = 0.3
JUST_SECONDS = 2.0
"""Where what is not slow has to be done within the same bound as what is."""
QUICK_HEAD, QUICK_ANSWER = Bounds(head_seconds=JUST_SECONDS), Bounds(answer_seconds=JUST_SECONDS)
QUICK_BODY, QUICK_IDLE = Bounds(body_seconds=SHORT_SECONDS), Bounds(idle_seconds=SHORT_SECONDS)


def head(method: str = "GET", path: str = "/up", *headers: str, host: str = "localhost") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"host: {host}", *headers, "", ""]).encode("latin-1")


class Attack(NamedTuple):
    sent: tuple[bytes, ...]
    status: int
    """Of the last answer."""
    reason: str | None
    """What is counted; None: it is served."""


UPGRADE = ("upgrade: websocket", "connection: upgrade, close", "sec-websocket-version: 13")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ATTACKS = {
    "websocket with a byte that is no token": Attack(
        (head("GET", "/up", *UPGRADE, "sec-websocket-protocol: \xff", "sec-websocket-key: x"),), 200, None
    ),
    "websocket without a key": Attack((head("GET", "/up", *UPGRADE),), 200, None),
    "HTTP/2 by prior knowledge": Attack((PREFACE + bytes(9) * 1500,), 505, "malformed"),
    "HTTP/2 by upgrade": Attack(
        (head("GET", "/up", "upgrade: h2c", "http2-settings: \xff", "connection: upgrade, close"),), 200, None
    ),
    "HTTP/0.9": Attack((b"GET /up\r\n\r\n",), 400, "malformed"),
    "HTTP/3.7": Attack((b"GET /up HTTP/3.7\r\n\r\n",), 505, "malformed"),
    "TLS": Attack((bytes.fromhex("1603010200010001fc0303"),), 400, "malformed"),
    "a Kafka request": Attack((bytes.fromhex("00000010000300000000000100046b63617400000000"),), 400, "malformed"),
    "ff in the path": Attack((b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",), 400, "malformed"),
    "ff in the method": Attack((b"G\xffT /up HTTP/1.1\r\nhost: localhost\r\n\r\n",), 400, "malformed"),
    "ff in a header's name": Attack((b"GET /up HTTP/1.1\r\nhost: localhost\r\n\xff: x\r\n\r\n",), 400, "malformed"),
    "ff in the host": Attack((head(host="\xff"),), 421, "foreign_host"),
    "nul in a header": Attack((head("GET", "/up", "x: \x00"),), 400, "malformed"),
    "no host": Attack((b"GET /up HTTP/1.1\r\n\r\n",), 400, "malformed"),
    "two hosts": Attack((head("GET", "/up", "host: localhost"),), 400, "malformed"),
    "a blank line first": Attack((b"\r\n\r\n" + GET,), 400, "malformed"),
    "a continuation line": Attack((b"GET /up HTTP/1.1\r\n x\r\nhost: localhost\r\n\r\n",), 400, "malformed"),
    "CONNECT": Attack(
        (b"CONNECT x:1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" + bytes(99),), 404, None
    ),
    "a body after the answer": Attack((head("GET", "/up", "connection: close"), b"x" * 100_000), 200, None),
    "what is no request after one": Attack((GET, b"\xff\xfe\r\n\r\n"), 400, "malformed"),
    "a long URI": Attack((head("GET", "/" + "x" * BOUNDS.request_line_bytes),), 414, "head_too_large"),
    "a URI without an end": Attack((b"GET /" + b"x" * 9000,), 414, "head_too_large"),
    "a long header": Attack((head("GET", "/up", "x: " + "y" * BOUNDS.head_bytes),), 431, "head_too_large"),
    "a header without an end": Attack((b"GET /up HTTP/1.1\r\nx: " + b"y" * 9000,), 431, "head_too_large"),
    "a megabyte of headers": Attack((b"GET /up HTTP/1.1\r\n" + b"a: b\r\n" * 170_000,), 431, "head_too_large"),
    "many headers": Attack((head("GET", "/up", *["a: b"] * 64),), 431, "head_too_large"),
    "many headers, a byte each": Attack((b"GET /up HTTP/1.1\n" + b"a:\n" * 2000 + b"\n",), 431, "head_too_large"),
    "a declared 3 MB": Attack((head("POST", "/change", "content-length: 3000000"),), 413, "body_too_large"),
    "a sent 3 MB": Attack(
        (head("POST", "/change", "content-length: 3000000"), bytes(3_000_000)), 413, "body_too_large"
    ),
    "3 MB to where nothing is": Attack(
        (head("POST", "/nothing", "content-length: 3000000"), bytes(3_000_000)), 413, "body_too_large"
    ),
    "a length of 5000 digits": Attack((head("POST", "/change", "content-length: " + "9" * 5000),), 400, "malformed"),
    "a length of 20 digits": Attack((head("POST", "/change", "content-length: " + "9" * 20),), 413, "body_too_large"),
    "a negative length": Attack((head("POST", "/change", "content-length: -4"),), 400, "malformed"),
    "two lengths": Attack((head("POST", "/change", "content-length: 4", "content-length: 5"),), 400, "malformed"),
    "chunks": Attack(
        (head("POST", "/change", "transfer-encoding: chunked"), b"1\r\nx\r\n" * 9000), 411, "body_without_length"
    ),
    "chunks and a length": Attack(
        (head("POST", "/change", "transfer-encoding: chunked", "content-length: 4"),), 411, "body_without_length"
    ),
    "an encoding nobody knows": Attack((head("POST", "/change", "transfer-encoding: x"),), 501, "malformed"),
    "a reload from another site": Attack(
        (head("POST", "/change", "origin: https://evil.example"),), 403, "foreign_origin"
    ),
    "a reload from a sandbox": Attack((head("POST", "/change", "origin: null"),), 403, "foreign_origin"),
    "a reload from another port": Attack(
        (head("POST", "/change", "origin: http://localhost:3000"),), 403, "foreign_origin"
    ),
    "a reload of another site without an origin": Attack(
        (head("POST", "/change", "sec-fetch-site: cross-site"),), 403, "foreign_origin"
    ),
    "a name of somebody else's": Attack((head(host="evil.example"),), 421, "foreign_host"),
    "a name of somebody else's, to where nothing is": Attack(
        (head("GET", "/no", host="evil.example"),), 421, "foreign_host"
    ),
    "a URL of somebody else's": Attack((head("GET", "http://evil.example/up"),), 421, "foreign_host"),
    "a wrong token": Attack((head("PUT", "/secret", "content-length: 4"), b"body"), 401, "not_admitted"),
    "a handler that raises": Attack((head("GET", "/broken"),), 500, "failed"),
    "an answer that cannot be sent": Attack((head("GET", "/unsendable"),), 500, "failed"),
}


def statuses(answers: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"(?:^|[\n}])HTTP/1\.1 (\d{3}) ", answers)]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_an_attack_costs_its_connection_alone(attack: Attack) -> None:
    async with serving() as served:
        beside = await served.connect()
        await beside.send_all(GET)
        await one_answer(beside)
        answers = await served.say(*attack.sent)
        assert (statuses(answers) or [0])[-1] == attack.status, answers
        assert served.refused == ({} if attack.reason is None else {attack.reason: 1})
        assert served.log.events.count("http_refused") <= 1
        # Neither who was there before nor who comes after has noticed.
        await beside.send_all(GET)
        assert (await one_answer(beside)).endswith(b"\r\n\r\nup\n")
        assert await served.serves_the_next()
        await beside.aclose()


async def test_a_connection_that_was_refused_leaves_nothing() -> None:
    """h11 raises an error where it is a local variable: a circle, which kept the connection until garbage was looked
    for. 17 000 hostile requests left 124 000 objects."""
    async with serving() as served:
        await served.say(b"TRACE /\xff HTTP/1.1\r\n\r\n")
        with uncollected(leaves_nothing=True):
            for _ in range(3):
                await served.say(b"TRACE /\xff HTTP/1.1\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    "attack",
    [attack for name, attack in ATTACKS.items() if sum(map(len, attack.sent)) < 3000 and name != "a wrong token"],
)
async def test_byte_by_byte_is_as_in_one_piece(attack: Attack) -> None:
    async with serving() as served, await served.connect() as stream:
        for byte in b"".join(attack.sent):
            try:
                await stream.send_all(bytes([byte]))
            except trio.BrokenResourceError:
                break
        assert (statuses(await heard(stream)) or [0])[-1] == attack.status


SLOW = {
    "a head": (QUICK_HEAD, (b"GET /up HT",), 408, "slow_head"),
    "a head after a request": (QUICK_HEAD, (GET, b"GET /up HT"), 408, "slow_head"),
    "a body": (QUICK_BODY, (head("PUT", "/echo", "content-length: 4"), b"bo"), 408, "slow_body"),
    "a body that is asked for": (
        QUICK_BODY,
        (head("PUT", "/echo", "content-length: 4", "expect: 100-continue"),),
        408,
        "slow_body",
    ),
    "a handler": (Bounds(handler_seconds=JUST_SECONDS), (head("GET", "/never"),), 503, "slow_handler"),
    "nothing": (QUICK_HEAD, (), 0, None),
    "nothing after a request": (QUICK_IDLE, (GET,), 200, None),
}


@pytest.mark.parametrize(("bounds", "sent", "status", "reason"), SLOW.values(), ids=SLOW.keys())
async def test_what_takes_too_long_ends(
    bounds: Bounds, sent: tuple[bytes, ...], status: int, reason: str | None
) -> None:
    async with serving(bounds) as served:
        answers = await served.say(*sent)
        assert (statuses(answers) or [0])[-1] == status
        assert served.refused == ({} if reason is None else {reason: 1})
        assert await served.serves_the_next()


async def test_a_head_that_drips_has_no_longer_than_one_that_stops() -> None:
    async with serving(Bounds(head_seconds=SHORT_SECONDS)) as served, await served.connect() as stream:
        began = trio.current_time()
        try:
            for byte in GET * 9:
                await stream.send_all(bytes([byte]))
                await trio.sleep(0.05)
        except trio.BrokenResourceError:
            pass
        assert trio.current_time() - began < 10.0  # all of it takes 17 s
        assert served.refused == {"slow_head": 1}


async def test_a_peer_that_does_not_read_is_let_go() -> None:
    async with serving(QUICK_ANSWER) as served, await served.connect() as stream:
        await stream.send_all(head("GET", "/large") * 20)
        with trio.fail_after(PATIENT_SECONDS):
            while not served.refused:  # noqa: ASYNC110 - what the server does has no event
                await trio.sleep(0.01)
        assert served.refused == {"slow_reader": 1}
        assert await served.serves_the_next()


async def test_requests_in_a_row_are_answered_in_a_row() -> None:
    async with serving() as served, await served.connect() as stream:
        for _ in range(3):
            await stream.send_all(GET)
            assert (await one_answer(stream)).endswith(b"up\n")
        await stream.send_all(GET * 40 + head("GET", "/up", "connection: close"))
        assert statuses(b"\n" + (await heard(stream))) == [200] * 41
        assert served.statistics.answers == {200: 44}


async def test_what_is_refused_after_a_head_has_a_body_again() -> None:
    """It was left out as after HEAD, which the library took for an error of ours, and all connections ended."""
    async with serving() as served, await served.connect() as stream:
        await stream.send_all(head("HEAD", "/up") + b"nonsense\r\n\r\n")
        said = await heard(stream)
        assert statuses(said) == [200, 400]
        assert said.rstrip().endswith(b"}")
        assert "http_failed" not in served.log.events


async def test_a_body_is_read_as_a_whole_and_asked_for_first() -> None:
    body = bytes(range(256)) * 300
    async with serving() as served, await served.connect() as stream:
        await stream.send_all(head("PUT", "/echo", f"content-length: {len(body)}", "expect: 100-continue"))
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 100 ")
        await stream.send_all(body)
        assert (await one_answer(stream)).endswith(b"\r\n\r\n" + body)
        await stream.send_all(GET)
        assert (await one_answer(stream)).endswith(b"up\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /up HTTP/1.0\r\n\r\n", 200),  # HAProxy's httpchk
        (head("HEAD"), 200),
        (head("OPTIONS", "*"), 404),
        (head("POST", "/up"), 405),
        (head("POST", "/change", "content-length: 4") + b"body", 200),
        (head("POST", "/change", "origin: http://localhost"), 200),
        (head("POST", "/change", "origin: http://localhost:80", "sec-fetch-site: same-origin"), 200),
        (head("GET", "/up", "origin: https://evil.example", "sec-fetch-site: cross-site"), 200),
        (head("GET", "http://localhost:9404/up?x=1"), 200),
        (head("GET", "https://localhost:9404/up"), 200),
        (head("GET", "/up?x=1"), 200),
        (head(host="10.0.0.7:9404"), 200),
        (head(host="[fe80::1]:9404"), 200),
        (head(host="KAFKA-101.:9404"), 200),
        (head("GET", "/anyhow", host="evil.example"), 200),
        (head("PUT", "/secret", "token: t"), 200),
    ],
)
async def test_what_is_served(sent: bytes, status: int) -> None:
    async with serving() as served:
        answer = await served.say(sent.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
        assert statuses(answer) == [status]
        assert served.refused == {}
        if sent.startswith(b"HEAD"):
            assert b"content-length: 3\r\n" in answer
            assert answer.endswith(b"\r\n\r\n")


async def test_a_name_of_somebody_else_is_told_what_to_do() -> None:
    async with serving() as served:
        answer = await served.say(head(host="evil.example\x1b[2J"))
        assert answer.startswith(b"HTTP/1.1 421 ")
        assert b"\x1b" not in answer
        assert served.log.lines[0]["found"] == "evil.example\\x1b[2J"
        answer = await served.say(head(host="throttle.example"))
        assert b"throttle.example is no name of this sidecar's" in answer
        assert b"evil.example is no name" in await served.say(head("GET", "http://evil.example/up"))
        assert b"http.allowed_hosts" in answer


async def test_a_defect_is_logged_once_and_says_where() -> None:
    async with serving() as served:
        for _ in range(3):
            assert b"HTTP/1.1 500" in await served.say(head("GET", "/broken"))
        (line,) = [line for line in served.log.lines if line["event"] == "http_failed"]
        assert line["error"] == "GET /broken: KeyError: 'broken'"
        assert isinstance(line["exc_info"], KeyError)
        assert served.refused == {"failed": 3}


@pytest.mark.parametrize("options", [[], ["--http2-prior-knowledge"], ["--http2"], ["-H", "Expect:"]])
async def test_curl_is_told_that_3_mb_are_too_much(options: list[str]) -> None:
    async with serving() as served:
        url = f"http://{served.server.address}/change"
        command = ["curl", "-sS", "-m", "9", *options, "-o", "-", "-w", "%{http_code}", "--data-binary", "@-", url]
        result = await trio.run_process(
            command, stdin=b"x" * 3_000_000, capture_stdout=True, capture_stderr=True, check=False
        )
        if options == ["--http2-prior-knowledge"]:
            assert result.returncode != 0
        else:
            assert (result.returncode, result.stdout[-3:]) == (0, b"413"), result
        assert await served.serves_the_next()


def test_curl_is_there() -> None:
    assert subprocess.run(["curl", "--version"], capture_output=True, check=True).returncode == 0


PIECES = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([attack.sent[0][:3000] for attack in ATTACKS.values()]),
    st.sampled_from(
        [b"\r\n", b"\r\n\r\n", b" HTTP/1.1\r\n", b"host: localhost\r\n", b"content-length: 3\r\n", b"\xff"]
    ),
    st.just(GET),
)


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(conversations=st.lists(st.lists(PIECES, max_size=8), min_size=1, max_size=8))
def test_whatever_is_sent_the_next_request_is_answered(conversations: list[list[bytes]]) -> None:
    async def talk(served: Serving, chunks: list[bytes]) -> None:
        async with await served.connect() as stream:
            try:
                for chunk in chunks:
                    if chunk:
                        await stream.send_all(chunk)
                await stream.send_eof()
            except trio.BrokenResourceError:
                pass
            await heard(stream)

    async def main() -> None:
        async with serving() as served:
            async with trio.open_nursery() as nursery:
                for chunks in conversations:
                    nursery.start_soon(talk, served, chunks)
            assert await served.serves_the_next()
            assert served.refused.keys() & {"failed", "slow_head", "slow_body"} <= {"failed"}
            # Only the two handlers that are broken on purpose may have failed.
            failures = [line["error"] for line in served.log.lines if line["event"] == "http_failed"]
            assert all(error.startswith(("GET /broken", "GET /unsendable")) for error in failures)

    trio.run(main)
