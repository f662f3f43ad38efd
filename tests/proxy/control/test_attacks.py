"""Attacks on POST /overrides and POST /overrides/undo over real HTTP: none changes anything, each costs its connection.

What any HTTP connection is attacked by is in tests/proxy/http/test_connection.py; here it is what these two routes add.
"""

from __future__ import annotations

import hmac
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
import trio

from proxy.control.override_routes import MAX_BODY_BYTES, PATH, UNDO_PATH, override_routes
from proxy.http import authorization
from proxy.http.authorization import BearerToken, Writers
from proxy.http.request_checks import Bounds
from proxy.quota_files.override_store import load
from tests.proxy.http.serving import ROUTES, serving
from tests.proxy.http.test_connection import head, statuses

from .test_override_keeper import RATE, Stage, override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.proxy.http.serving import Serving

TOKEN = "0123456789abcdef-secret"
OURS = f"authorization: Bearer {TOKEN}"
NEW = msgspec.json.encode({"id": "bbbb", "changes": [{"place": "broker", "key": RATE, "value": "1MiB/s"}]})
BODIES = {PATH: NEW, UNDO_PATH: b'{"id": "aaaa"}'}


@asynccontextmanager
async def served(folder: Path, bounds: Bounds | None = None) -> AsyncIterator[tuple[Stage, Serving]]:
    """A sidecar's routes for writers with the token; the override `aaaa` is there."""
    stage = Stage(folder)
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    admit = Writers(BearerToken.open(token, stage.log), frozenset()).required
    routes = [*override_routes(stage.keeper, stage.watch, 101, admit=admit), *ROUTES]
    async with serving(bounds, routes=routes) as made:
        yield stage, made


def assert_nothing_has_changed(stage: Stage) -> None:
    assert [each.id for each in stage.keeper.current] == ["aaaa"]
    assert [each.id for each in load(stage.store, 101).overrides] == ["aaaa"]
    assert stage.rate == 5 * 2**20


def post(path: str, *headers: str, body: bytes | None = None, host: str = "localhost") -> bytes:
    sent = BODIES[path] if body is None else body
    return head("POST", path, f"content-length: {len(sent)}", *headers, host=host) + sent


class Attack(NamedTuple):
    headers: tuple[str, ...]
    status: int
    host: str = "localhost"


ATTACKS = {
    "no credentials": Attack((), 401),
    "an empty token": Attack(("authorization: Bearer ",), 401),
    "a wrong token": Attack(("authorization: Bearer wrong-wrong-wrong-wrong",), 401),
    "the beginning of the token": Attack((f"authorization: Bearer {TOKEN[:-1]}",), 401),
    "more than the token": Attack((f"{OURS}x",), 401),
    "another scheme": Attack((f"authorization: Basic {TOKEN}",), 401),
    "no scheme": Attack((f"authorization: {TOKEN}",), 401),
    "the token in a cookie": Attack((f"cookie: token={TOKEN}", f"x-token: {TOKEN}"), 401),
    "a wrong token before the right one": Attack(("authorization: Bearer wrong-wrong-wrong", OURS), 401),
    "a form of another site": Attack((OURS, "origin: https://evil.example", "content-type: text/plain"), 403),
    "a page of another port": Attack((OURS, "origin: http://localhost:3000", "content-type: application/json"), 403),
    "a sandbox": Attack((OURS, "origin: null"), 403),
    "another site without an origin": Attack((OURS, "sec-fetch-site: cross-site"), 403),
    "a page whose name leads here": Attack((OURS,), 421, "evil.example"),
    "a page whose name leads here, by its own origin": Attack(
        (OURS, "origin: http://evil.example"), 421, "evil.example"
    ),
    "a name that begins like ours": Attack((OURS,), 421, "kafka-101.evil.example"),
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_who_is_not_let_in_changes_nothing(tmp_path: Path, path: str, attack: Attack) -> None:
    async with served(tmp_path) as (stage, made):
        sent = post(path, *attack.headers, "connection: close", host=attack.host)
        assert statuses(await made.say(sent)) == [attack.status]
        assert_nothing_has_changed(stage)
        assert await made.serves_the_next()


async def test_reading_wants_the_token_too(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, made):
        assert statuses(await made.say(head("GET", PATH, "connection: close"))) == [401]


async def test_the_token_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    class Recording:
        @staticmethod
        def compare_digest(brought: bytes, known: bytes) -> bool:
            compared.append((brought, known))
            return hmac.compare_digest(brought, known)

    monkeypatch.setattr(authorization, "hmac", Recording)
    async with served(tmp_path) as (_, made):
        for brought in (TOKEN[:-1], TOKEN):
            await made.say(post(PATH, f"authorization: Bearer {brought}", "connection: close"))
    assert compared == [(TOKEN[:-1].encode(), TOKEN.encode()), (TOKEN.encode(), TOKEN.encode())]


LENGTHS = {
    "a declared body": (413, PATH, (f"content-length: {MAX_BODY_BYTES + 1}",), b""),
    "a sent body": (413, PATH, (f"content-length: {MAX_BODY_BYTES + 1}",), b"x" * (MAX_BODY_BYTES + 1)),
    "a body to undo": (413, UNDO_PATH, ("content-length: 5000",), b"{" * 5000),
    "chunks without end": (411, PATH, ("transfer-encoding: chunked",), b"5\r\nxxxxx\r\n" * 9000),
}


@pytest.mark.parametrize(("status", "path", "headers", "body"), LENGTHS.values(), ids=LENGTHS.keys())
async def test_a_body_that_is_too_long_is_refused_before_it_is_read(
    tmp_path: Path, status: int, path: str, headers: tuple[str, ...], body: bytes
) -> None:
    async with served(tmp_path) as (stage, made):
        assert statuses(await made.say(head("POST", path, OURS, *headers) + body)) == [status]
        assert_nothing_has_changed(stage)
        assert await made.serves_the_next()


async def test_who_is_not_let_in_sends_no_body_of_a_megabyte(tmp_path: Path) -> None:
    """The length that a writer may send is the writer's."""
    async with served(tmp_path) as (_, made):
        sent = head("POST", PATH, f"content-length: {MAX_BODY_BYTES}", "expect: 100-continue")
        assert (await made.say(sent)).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_that_drips_ends_and_changes_nothing(tmp_path: Path, path: str) -> None:
    async with served(tmp_path, Bounds(body_seconds=0.2)) as (stage, made), await made.connect() as stream:
        await stream.send_all(head("POST", path, OURS, f"content-length: {len(BODIES[path])}"))
        said = b""
        with trio.fail_after(20):
            for byte in BODIES[path][:-1]:
                with trio.move_on_after(0.05):
                    said += await stream.receive_some()
                if said:
                    break
                await stream.send_all(bytes([byte]))
        assert statuses(said) == [408]
        assert_nothing_has_changed(stage)
        assert await made.serves_the_next()


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'"x"',
        b"\xff",
        b"{}",
        b"[" * 4000,
        b'{"id": 1}',
        b'{"id": "aaaa", "no": 1}',
        b'{"label": NaN}',
    ],
    ids=repr,
)
async def test_what_is_no_request_of_theirs_says_so(tmp_path: Path, path: str, body: bytes) -> None:
    async with served(tmp_path) as (stage, made):
        said = await made.say(post(path, OURS, "connection: close", body=body))
        assert statuses(said) == [400]
        assert b'"problems"' in said
        assert_nothing_has_changed(stage)
        assert "http_failed" not in made.log.events


async def test_of_writers_that_race_each_change_is_whole_and_each_answer_true(tmp_path: Path) -> None:
    """Forty set an override of their own, forty fight for one id, and ten undo the one that was there."""
    answers: dict[str, list[int]] = {"own": [], "one": [], "undo": []}
    async with served(tmp_path) as (stage, made):

        async def send(kind: str, path: str, body: object) -> None:
            said = await made.say(post(path, OURS, "connection: close", body=msgspec.json.encode(body)))
            answers[kind] += statuses(said)

        def new(name: str, rate: int) -> dict[str, object]:
            return {"id": name, "changes": [{"place": "broker", "key": RATE, "value": rate}]}

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(send, "own", PATH, new(f"{number:04x}0", number + 1))
                nursery.start_soon(send, "one", PATH, new("ffff", number + 1))
                if number % 4 == 0:
                    nursery.start_soon(send, "undo", UNDO_PATH, {"id": "aaaa"})
        assert answers["own"] == [200] * 40
        assert sorted(answers["one"]) == [200] + [400] * 39
        assert sorted(answers["undo"]) == [200] + [404] * 9
        there = stage.keeper.current
        assert {each.id for each in there} == {"ffff", *(f"{number:04x}0" for number in range(40))}
        assert load(stage.store, 101).overrides == there
        assert stage.rate == there[-1].changes[0].value
