"""Whose quota bounds a connection: SASL exchanges through the relay, which all go on as they came."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from protocol.wire.framing import with_length
from proxy.clients.frames import ClientFrames
from proxy.clients.throttle import ClientThrottle, Uncharged
from proxy.handover.connection_state import restore, take
from proxy.handover.messages import ConnectionState
from proxy.quotas.client_rates import ClientRates
from proxy.quotas.rules import Quotas
from proxy.relay.connection import Given
from proxy.statistics.counters import RoleStatistics
from tests.proxy.conversation import settings

from ..relay.wire import Wire, patient_clock, read_frame, relayed
from .frames import produce_request, produce_response
from .rates import traffic_rates
from .sasl_frames import (
    CLIENT_FINAL,
    SERVER_FINAL,
    SERVER_FIRST,
    SERVER_REFUSES,
    authenticate,
    authenticate_response,
    client_first,
    handshake,
    handshake_response,
    plain,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from trio.testing import MockClock

    from proxy.relay.connection import Connection

SIZE = 1000
SCRAM = "SCRAM-SHA-512"
API_VERSIONS = (18).to_bytes(2) + (0).to_bytes(2) + (1).to_bytes(4) + (3).to_bytes(2) + b"app"
METADATA = (3).to_bytes(2) + (0).to_bytes(2) + (2).to_bytes(4) + (3).to_bytes(2) + b"app" + bytes(4)


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


def quotas(**users: float) -> Quotas:
    """Quotas of users that hold nobody up, and show by what was counted who a client is."""
    rates = {f"users.{name}": rate for name, rate in (users or {"default": 1e9}).items()}
    return Quotas(clients=ClientRates(producer=traffic_rates(rates)))


def clients(of: Quotas | None = None) -> ClientThrottle:
    return ClientThrottle(settings(), quotas() if of is None else of, 0.0, RoleStatistics())


async def exchanged(wire: Wire, request: bytes, response: bytes) -> None:
    """One request and its answer, each of which goes on as it came, however it is cut."""
    for frame, source, sink in ((request, wire.follower, wire.leader), (response, wire.leader, wire.follower)):
        data = with_length(frame)
        cuts = sorted({0, 3, min(11, len(data)), len(data) - 1, len(data)})
        for begin, end in pairwise(cuts):
            await source.send_all(data[begin:end])
            await trio.testing.wait_all_tasks_blocked()
        assert await read_frame(sink) == frame


async def produced(wire: Wire) -> None:
    await exchanged(wire, produce_request(SIZE), produce_response())


async def plain_login(
    wire: Wire, user: str, *, error_code: int = 0, version: int = 2, session_lifetime_ms: int = 0
) -> None:
    await exchanged(wire, handshake("PLAIN"), handshake_response())
    answer = authenticate_response(version=version, error_code=error_code, session_lifetime_ms=session_lifetime_ms)
    await exchanged(wire, authenticate(plain(user), version=version), answer)


async def scram_login(wire: Wire, user: str, final: bytes = SERVER_FINAL) -> None:
    await exchanged(wire, handshake(SCRAM), handshake_response())
    await exchanged(wire, authenticate(client_first(user)), authenticate_response(SERVER_FIRST))
    await exchanged(wire, authenticate(CLIENT_FINAL), authenticate_response(final))


def charged(of: ClientThrottle) -> dict[str, int]:
    return {label: size for (label, _), size in of.passed_bytes.items()}


async def test_without_authentication_the_user_is_anonymous(clock: MockClock) -> None:
    of = clients()
    async with relayed(clients=of) as wire:
        await exchanged(wire, API_VERSIONS, API_VERSIONS[4:8] + bytes(6))
        await produced(wire)
    assert charged(of) == {"users.ANONYMOUS": SIZE}


RECORDED = [
    json.loads(line) for line in Path(__file__).with_name("sasl_exchanges.jsonl").read_text("ascii").splitlines()
]
"""The exchanges of clients with a broker of 4.1, in which a user alice with the password "secret" logs in."""


@pytest.mark.parametrize("recorded", RECORDED, ids=[f"{each['client']}, {each['mechanism']}" for each in RECORDED])
async def test_recorded_exchanges(clock: MockClock, recorded: dict[str, Any]) -> None:
    of = clients()
    frames = [bytes.fromhex(frame) for _, frame in recorded["frames"]]
    assert [kind for kind, _ in recorded["frames"]] == ["request", "response"] * (len(frames) // 2)
    async with relayed(clients=of) as wire:
        await exchanged(wire, API_VERSIONS, API_VERSIONS[4:8] + bytes(6))
        for request, response in zip(frames[::2], frames[1::2], strict=True):
            await exchanged(wire, request, response)
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


@pytest.mark.parametrize("by_trio", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_plain(clock: MockClock, version: int, by_trio: bool) -> None:
    of = clients()
    async with relayed(clients=of, by_trio=by_trio) as wire:
        await exchanged(wire, API_VERSIONS, API_VERSIONS[4:8] + bytes(6))
        await plain_login(wire, "alice", version=version)
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


async def test_scram(clock: MockClock) -> None:
    of = clients()
    async with relayed(clients=of) as wire:
        await scram_login(wire, "alice")
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM])
async def test_tokens_without_headers(clock: MockClock, mechanism: str) -> None:
    """SaslHandshake v0, as clients before 1.0 authenticate."""
    of = clients()
    async with relayed(clients=of) as wire:
        await exchanged(wire, handshake(mechanism, version=0), handshake_response())
        if mechanism == "PLAIN":
            await exchanged(wire, plain("alice"), b"")
        else:
            await exchanged(wire, client_first("alice"), SERVER_FIRST)
            await exchanged(wire, CLIENT_FINAL, SERVER_FINAL)
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


@pytest.mark.parametrize("first", [b"\x60\x82\x01\x02 a Kerberos ticket", b"\0alice\0secret"])
async def test_tokens_from_the_first_byte_on_name_nobody(clock: MockClock, first: bytes) -> None:
    """An answer to what only looks like a token, as to a version that nobody knows, accepts nobody."""
    of = clients()
    async with relayed(clients=of) as wire:
        await exchanged(wire, first, b"ok")
        await produced(wire)
    assert charged(of) == {"users.ANONYMOUS": SIZE}


async def test_without_sasl_a_client_remains_anonymous_whatever_it_says(clock: MockClock) -> None:
    """Such a broker answers a handshake with ILLEGAL_SASL_STATE, and ApiVersions of any version with an error."""
    of = clients()
    odd = (18).to_bytes(2) + (200).to_bytes(2) + b"\1\2\3\4" + b"\0alice\0secret"
    async with relayed(clients=of) as wire:
        await exchanged(wire, handshake("PLAIN", version=0), handshake_response(34))
        await exchanged(wire, odd, odd[4:8] + bytes(2))
        await exchanged(wire, authenticate(plain("alice")), authenticate_response(error_code=34))
        await produced(wire)
    assert charged(of) == {"users.ANONYMOUS": SIZE}
    assert not of.listener_authenticates


async def test_where_clients_authenticate_nothing_is_charged_before(clock: MockClock) -> None:
    """A broker closes the connection instead. Somebody else's client id owed 95 s for 200 such requests."""
    of = clients(Quotas(clients=ClientRates(producer=traffic_rates({"clients.default": 10_000.0}))))
    async with relayed(clients=of) as honest:
        await plain_login(honest, "alice")
        for number in range(3):
            async with relayed(clients=of) as stranger:
                if number:
                    await exchanged(stranger, handshake(SCRAM), handshake_response())
                for _ in range(3):
                    await stranger.follower.send_all(
                        with_length(produce_request(50_000, client_id=f"app{number or ''}"))
                    )
                    await read_frame(stranger.leader)
        assert not of.passed_bytes
        assert of.states(0.0) == []
        began = trio.current_time()
        await produced(honest)
        assert trio.current_time() - began < 0.5


async def test_a_listener_that_asks_for_no_authentication_any_more(clock: MockClock) -> None:
    """It was restarted so: clients would have had no quota until the sidecar was."""
    of = clients(Quotas(clients=ClientRates(producer=traffic_rates({"clients.default": 10_000.0}))))
    async with relayed(clients=of) as before:
        await plain_login(before, "alice")
    assert of.listener_authenticates
    async with relayed(clients=of) as wire:
        await exchanged(wire, API_VERSIONS, API_VERSIONS[4:8] + bytes(6))
        assert of.listener_authenticates
        for _ in range(3):
            await produced(wire)
    assert not of.listener_authenticates
    assert charged(of) == {"app": 2 * SIZE}


async def test_the_first_to_be_refused_is_charged_nothing_in_the_end(clock: MockClock) -> None:
    """Before anybody has authenticated it is not known that all have to."""
    of = clients(Quotas(clients=ClientRates(producer=traffic_rates({"clients.default": 10_000.0}))))
    async with relayed(clients=of) as stranger:
        await stranger.follower.send_all(with_length(produce_request(50_000)))
        await read_frame(stranger.leader)
        await stranger.leader.aclose()
        await stranger.finished.wait()
    assert of.uncharged_bytes == {Uncharged.CLOSED: 50_000}
    async with relayed(clients=of) as honest:
        began = trio.current_time()
        await produced(honest)
        assert trio.current_time() - began < 0.5


@pytest.mark.parametrize("version", [1, 2])
async def test_the_user_of_a_padded_token_counts(clock: MockClock, version: int) -> None:
    """As far as a broker reads one (sasl.server.max.receive.size)."""
    of = clients()
    request = authenticate(plain("alice"), version=version)
    request += bytes(200_000)  # a broker does not look behind the last field
    async with relayed(clients=of) as wire:
        await exchanged(wire, handshake("PLAIN"), handshake_response())
        await exchanged(wire, request, authenticate_response(version=version))
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI", "SCRAM-SHA-1", "x" * 300])
async def test_of_other_mechanisms_no_user_is_known(clock: MockClock, mechanism: str) -> None:
    of = clients()
    async with relayed(clients=of) as wire:
        await exchanged(wire, handshake(mechanism), handshake_response())
        await exchanged(wire, authenticate(plain("alice") * 2000), authenticate_response())
        await produced(wire)
    assert charged(of) == {}


async def test_a_user_that_the_broker_refuses_does_not_count(clock: MockClock) -> None:
    of = clients()
    async with relayed(clients=of) as wire:
        await plain_login(wire, "alice", error_code=58)
        await scram_login(wire, "alice", final=SERVER_REFUSES)
        await produced(wire)
    assert charged(of) == {"users.ANONYMOUS": SIZE}


async def test_a_user_counts_once_the_broker_has_accepted(clock: MockClock) -> None:
    """A client that does not wait for the answer is charged to its user from the answer on."""
    of = clients()
    async with relayed(clients=of) as wire:
        await exchanged(wire, handshake("PLAIN"), handshake_response())
        for frame in (authenticate(plain("alice")), produce_request(SIZE), produce_request(SIZE)):
            await wire.follower.send_all(with_length(frame))
            await read_frame(wire.leader)
        for frame in (authenticate_response(), produce_response(), produce_response()):
            await wire.leader.send_all(with_length(frame))
            assert await read_frame(wire.follower) == frame
        await produced(wire)
    assert charged(of) == {"users.ANONYMOUS": 2 * SIZE, "users.alice": SIZE}


async def test_a_client_that_had_no_quota_before_its_user_was_known(clock: MockClock) -> None:
    of = clients(quotas(alice=1e9))
    async with relayed(clients=of) as wire:
        await exchanged(wire, handshake("PLAIN"), handshake_response())
        for frame in (authenticate(plain("alice")), produce_request(SIZE)):
            await wire.follower.send_all(with_length(frame))
            await read_frame(wire.leader)
        await wire.leader.send_all(with_length(authenticate_response()))
        await wire.leader.send_all(with_length(produce_response()))
        for _ in range(2):
            await read_frame(wire.follower)
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


async def test_two_attempts_in_flight_each_have_their_own_answer(clock: MockClock) -> None:
    of = clients()
    async with relayed(clients=of) as wire:
        await exchanged(wire, handshake("PLAIN"), handshake_response())
        for user in ("alice", "bob"):
            await wire.follower.send_all(with_length(authenticate(plain(user))))
            await read_frame(wire.leader)
        for error_code in (0, 34):  # a second one is out of order for a broker: ILLEGAL_SASL_STATE
            await wire.leader.send_all(with_length(authenticate_response(error_code=error_code)))
            await read_frame(wire.follower)
        await produced(wire)
        await plain_login(wire, "carol")
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE, "users.carol": SIZE}


async def test_another_authentication_changes_the_user(clock: MockClock) -> None:
    of = clients()
    async with relayed(clients=of) as wire:
        await plain_login(wire, "alice")
        await produced(wire)
        await scram_login(wire, "bob")
        await produced(wire)
        await plain_login(wire, "carol", error_code=58)
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE, "users.bob": 2 * SIZE}


async def test_quotas_that_come_later_find_the_user(clock: MockClock) -> None:
    of = clients(Quotas())
    async with relayed(clients=of) as wire:
        await plain_login(wire, "alice")
        await produced(wire)
        assert charged(of) == {}
        of.apply(quotas(), trio.current_time())
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


async def test_after_authentication_nothing_is_looked_at_where_no_client_has_a_quota(
    clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0
    look = ClientFrames.request

    def counted(*given: object, **more: object) -> object:
        nonlocal seen
        seen += 1
        return look(*given, **more)

    monkeypatch.setattr(ClientFrames, "request", counted)
    async with relayed(clients=clients(Quotas())) as wire:
        for frame in (handshake("PLAIN"), authenticate(plain("alice")), METADATA, METADATA, produce_request(SIZE)):
            await wire.follower.send_all(with_length(frame))
            assert await read_frame(wire.leader) == frame
            await wire.leader.send_all(with_length(authenticate_response()))
            await read_frame(wire.follower)
    assert seen == 3


async def test_a_password_is_kept_nowhere(clock: MockClock) -> None:
    states: list[ConnectionState] = []
    of = clients()
    async with relayed(clients=of) as wire:
        await plain_login(wire, "alice")
        await handed_over(wire, states)
        assert "secret" not in repr((states, wire.log.lines))
        assert states[0].clients is not None
        assert states[0].clients.user == "alice"


async def handed_over(wire: Wire, states: list[ConnectionState]) -> None:
    async def give(connection: Connection) -> Given:
        await trio.lowlevel.checkpoint()
        states.append(take(connection, trio.current_time()))
        return Given.TAKEN

    wire.draining.give = give
    wire.draining.begun.set()
    await wire.finished.wait()


@pytest.mark.parametrize("has_quotas", [True, False])
async def test_the_user_is_handed_over(clock: MockClock, has_quotas: bool) -> None:
    states: list[ConnectionState] = []
    async with relayed(clients=clients(None if has_quotas else Quotas())) as wire:
        await plain_login(wire, "alice")
        await exchanged(wire, METADATA, METADATA[4:8] + bytes(6))
        await handed_over(wire, states)
    of = clients()
    async with going_on(states[0], of) as wire:
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


async def test_an_exchange_goes_on_in_another_process(clock: MockClock) -> None:
    states: list[ConnectionState] = []
    async with relayed(clients=clients()) as wire:
        await exchanged(wire, handshake(SCRAM), handshake_response())
        await exchanged(wire, authenticate(client_first("alice")), authenticate_response(SERVER_FIRST))
        await handed_over(wire, states)
    of = clients()
    async with going_on(states[0], of) as wire:
        await exchanged(wire, authenticate(CLIENT_FINAL), authenticate_response(SERVER_FINAL))
        await produced(wire)
    assert charged(of) == {"users.alice": SIZE}


async def test_an_older_process_tells_no_user(clock: MockClock) -> None:
    states: list[ConnectionState] = []
    async with relayed(clients=clients()) as wire:
        await plain_login(wire, "alice")
        await handed_over(wire, states)
    of = clients()
    async with going_on(msgspec.structs.replace(states[0], clients=None), of) as wire:
        await produced(wire)
    assert charged(of) == {}


def going_on(state: ConnectionState, of: ClientThrottle) -> AbstractAsyncContextManager[Wire]:
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=ConnectionState)
    return relayed(clients=of, restore=partial(restore, state=state, now=trio.current_time()))


@pytest.mark.parametrize("version", [1, 2])
async def test_a_request_waits_in_line_no_longer_than_its_session_lasts(clock: MockClock, version: int) -> None:
    """A broker closes the connection on a request that comes after the session's end (KIP-368): one that the client
    had sent in time was held beyond it."""
    of = clients(quotas(alice=SIZE / 4))
    async with relayed(clients=of) as debtor, relayed(clients=of) as wire:
        await plain_login(debtor, "alice", version=version)
        await plain_login(wire, "alice", version=version, session_lifetime_ms=2000)
        began = trio.current_time()
        await debtor.follower.send_all(with_length(produce_request(2 * SIZE)))
        await read_frame(debtor.leader)
        await trio.sleep(1.0)
        await wire.follower.send_all(with_length(produce_request(SIZE)))
        await read_frame(wire.leader)
        assert 1.5 < trio.current_time() - began < 2.0
