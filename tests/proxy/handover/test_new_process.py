"""The new process' side: what it makes of an old one that gave up, ended too soon, or sends what cannot be taken."""

from __future__ import annotations

import os
import socket
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
import trio
import trio.testing

from proxy.clients.throttle import ClientDebt, ClientThrottle
from proxy.config.settings_values import Address
from proxy.errors import ConfigurationError
from proxy.handover import old_process as giving
from proxy.handover.channel import Channel
from proxy.handover.messages import (
    SCHEMA,
    Begin,
    ConnectionState,
    HandOverRefusal,
    Hello,
    LinkMessage,
    Listening,
    Offer,
    Ready,
)
from proxy.handover.new_process import Inherited, inherit
from proxy.handover.old_process import Listener, OldProcess
from proxy.handover.serving import ALONE, HandOver, go_on
from proxy.process.supervision import Supervisor, Task
from proxy.process.systemd import ServiceManager
from proxy.quotas.client_entity import ANONYMOUS
from proxy.quotas.client_rates import ClientRates
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.rules import Quotas
from proxy.relay.connection import Draining
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from tests.open_files import open_files

from ..clients.rates import traffic_rates
from ..conversation import settings as quota_settings
from ..recorded_log import RecordedLog
from .old_server import BROKER, OldServer, socket_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from proxy.throttle.role_throttle import RoleThrottle

LIMIT_SECONDS = 20
PRODUCER, _ = ClientTraffic


class Server(OldServer):
    """Without a connection."""

    def __init__(self) -> None:
        self.handed_over = False
        self.confirmed: int | None = None

    def client_debts(self) -> list[ClientDebt]:
        return [ClientDebt(PRODUCER.value, None, "app", 60.0)]

    def hand_over(self, giving: OldProcess) -> None:
        self.handed_over = True

    def take_back(self) -> None:
        self.handed_over = False

    def confirm(self, process: int) -> None:
        self.confirmed = process


async def never(*_: object) -> None:
    raise AssertionError("no connection is run here")


class New:
    """A process that asks at `path`."""

    def __init__(
        self, manager: ServiceManager | None = None, throttles: Mapping[Role, RoleThrottle] | None = None
    ) -> None:
        self.log, self.draining = RecordedLog(), Draining()
        settings = SimpleNamespace(broker=SimpleNamespace(id=BROKER), control=SimpleNamespace(directory=socket_path()))
        manager = manager or ServiceManager({})
        self.clients = ClientThrottle(
            quota_settings(),
            Quotas(clients=ClientRates(producer=traffic_rates({"clients.default": 1000}))),
            trio.current_time(),
            RoleStatistics(),
        )
        self.handover = HandOver(
            cast("Any", settings), throttles or {}, self.draining, clients=self.clients, manager=manager, log=self.log
        )
        path = self.handover._path
        assert path is not None
        path.parent.mkdir()
        self.path = path

    async def take(self) -> None:
        await self.handover.take_connections(lambda *_: None, never)


async def offered(new: New, old: OldProcess, nursery: trio.Nursery) -> None:
    nursery.start_soon(old.run)
    while await new.handover.ask() is None:  # noqa: ASYNC110 - whether it listens yet, only asking tells
        await trio.sleep(0.01)


async def test_the_listener_has_no_more_left_than_in_the_old_process() -> None:
    old, new = New(), New()
    for each, now in ((old, 0.0), (new, 0.0)):
        each.clients.uplink.change_rate(1_000_000.0, now)
    old.clients.uplink.count_client(old, 3_000_000)
    available = old.handover.available_bytes()
    new.handover._begin(Begin(available_bytes=dict(available)))
    assert available["listener"] == pytest.approx(-3_000_000, abs=200_000)
    assert new.handover.available_bytes() == pytest.approx(available, abs=50_000)


async def test_a_new_process_that_was_ready_too_late_ends_and_the_old_one_serves_on(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one had given up; the new one took it for dead, accepted beside it from the same sockets, and both let
    the whole quota through."""
    monkeypatch.setattr(giving, "ANSWER_SECONDS", 0.1)
    new, server, log = New(), Server(), RecordedLog()
    with trio.fail_after(LIMIT_SECONDS):
        await offered(new, OldProcess(new.path, server, log), nursery)
        offers_itself = new.path.lstat().st_ino
        nursery.start_soon(new.handover.run)
        while "handover_failed" not in log.events:  # noqa: ASYNC110 - a log has no event of Trio's
            await trio.sleep(0.01)
        await new.take()
        await trio.testing.wait_all_tasks_blocked()
    assert new.path.lstat().st_ino == offers_itself
    assert not server.handed_over
    assert new.draining.begun.is_set()
    assert "taken_over" not in new.log.events
    assert "serves on" in str([line["error"] for line in new.log.lines if line["event"] == "handover_failed"][-1])
    assert log.lines[-1]["error"] == "the other process was not ready within 0.1 s"


async def test_a_new_process_that_is_told_to_end_leaves_the_old_one_where_the_next_one_asks(
    nursery: trio.Nursery,
) -> None:
    """It took the socket's name and ended: nothing could take over from the old one any more."""
    new = New()
    with trio.fail_after(LIMIT_SECONDS):
        await offered(new, OldProcess(new.path, Server(), RecordedLog()), nursery)
        offers_itself = new.path.lstat().st_ino
        nursery.start_soon(new.handover.run)
        with trio.move_on_after(0.1):
            await new.take()
        await trio.testing.wait_all_tasks_blocked()
    assert new.path.lstat().st_ino == offers_itself


async def test_an_old_process_that_hands_over_and_ends_is_taken_over(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving, "PROVING_SECONDS", 0.1)
    new, server = New(), Server()
    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as old:
            await offered(new, OldProcess(new.path, server, RecordedLog()), old)
            nursery.start_soon(new.take)
            while server.confirmed is None:  # noqa: ASYNC110 - as above
                await trio.sleep(0.01)
            assert (server.handed_over, server.confirmed) == (True, os.getpid())
            old.cancel_scope.cancel()
        while "taken_over" not in new.log.events:  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)
    assert not new.draining.begun.is_set()
    assert set(new.log.events) <= {"nothing_to_take_over", "taken_over"}
    now = trio.current_time()
    app, other = (new.clients.entity(ANONYMOUS, name, PRODUCER, now) for name in ("app", "other"))
    assert app is not None
    assert other is not None
    assert 40 < app.budget.throttle_seconds(now) <= 60
    assert other.budget.throttle_seconds(now) == 0


@pytest.mark.parametrize("has_begun", [False, True])
async def test_an_old_process_that_is_killed_leaves_everything_to_the_new_one(
    nursery: trio.Nursery, *, has_begun: bool
) -> None:
    new = New()

    async def old() -> None:
        async with old_process(new.path) as channel:
            if has_begun:
                await channel.send(Begin({}))
            channel.close()

    with trio.fail_after(LIMIT_SECONDS):
        nursery.start_soon(old)
        while await new.handover.ask() is None:  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)
        assert not new.handover._serves.is_set()
        await new.take()
    assert new.handover._serves.is_set()
    assert not new.draining.begun.is_set()
    assert "taken_over" in new.log.events


async def test_listeners_that_a_drain_has_closed_are_not_offered() -> None:
    """Their descriptors' numbers were, which may be other files by then."""
    new = New()
    address = Address("127.0.0.1", 9092)
    with socket.socket() as open_one, trio.socket.socket() as closed:
        listeners = {"http.listen": (address, open_one), "ingress.listen": (address, closed)}
        new.handover.listens(listeners, close_pages=lambda: None)
        assert [each.key for each in new.handover.listening()] == list(listeners)
        closed.close()
        assert new.handover.listening() == [Listener("http.listen", address, open_one.fileno())]


class Manager(ServiceManager):
    def __init__(self) -> None:
        super().__init__({})
        self.told: list[int] = []

    def replaced_by(self, process: int) -> None:
        self.told.append(process)


@pytest.mark.parametrize(("ends", "told"), [(False, [7]), (True, [])])
async def test_systemd_hears_of_the_new_process_unless_it_stops_the_old_one(*, ends: bool, told: list[int]) -> None:
    """Else it would take the new one for what it stops, and wait for its end. Before the new process has proven itself
    systemd hears nothing: if the new one died, it would stop the old one, too."""
    manager = Manager()
    new = New(manager)
    if ends:
        new.handover.end_soon()
        new.draining.begun.set()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for task in ALONE:
                nursery.start_soon(new.handover.keep, Supervisor(new.log), task, trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            answered = set(new.handover._serving)
            new.handover.hand_over(OldProcess(new.path, Server(), new.log))
            assert [scope.cancel_called for scope in answered] == [True] * len(ALONE)
            assert (manager.told, new.draining.give is None) == ([], False)
            new.handover.confirm(7)
            assert manager.told == told
            assert await new.handover.is_over()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("ends", [False, True])
async def test_a_process_takes_back_what_it_gave_unless_it_was_told_to_end(*, ends: bool) -> None:
    new = New()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(new.handover.keep, Supervisor(new.log), Task.OVERRIDES, trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        new.handover.hand_over(OldProcess(new.path, Server(), new.log))
        await trio.testing.wait_all_tasks_blocked()
        assert not new.handover._serving
        if ends:
            new.handover.end_soon()
        new.handover.take_back()
        assert await new.handover.is_over() == ends
        assert (new.draining.begun.is_set(), new.draining.give) == (ends, None)
        await trio.testing.wait_all_tasks_blocked()
        assert bool(new.handover._serving) == (not ends)
        nursery.cancel_scope.cancel()


async def answering(
    path: Path,
    answers: Callable[[Channel], Awaitable[None]],
    *,
    ends: bool,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """A process that is asked once and then ends, or again and again."""
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        await listener.bind(path)
        listener.listen(1)
        task_status.started()
        while True:
            sock, _ = await listener.accept()
            channel = Channel(sock)
            await channel.receive()
            await answers(channel)
            channel.close()
            if ends:
                return


async def nothing(_: Channel) -> None:
    pass


async def no_socket(channel: Channel) -> None:
    with open(os.devnull) as file:  # noqa: PTH123, ASYNC230 - no disk is waited for
        await channel.send(Offer([Listening("http.listen", "", 0)], []), [file.fileno()])


async def too_few(channel: Channel) -> None:
    with socket.socket() as sock:
        listening = [Listening("http.listen", "", 0), Listening("ingress.listen", "", 0)]
        await channel.send(Offer(listening, []), [sock.fileno()])


async def too_many(channel: Channel) -> None:
    with socket.socket() as sock:
        await channel.send(Offer([], []), [sock.fileno()])


async def no_offer(channel: Channel) -> None:
    with socket.socket() as sock:
        await channel.send(Ready(), [sock.fileno()])


async def refusal(channel: Channel) -> None:
    await channel.send(HandOverRefusal("expected another schema"))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (nothing, "no answer"),
        (no_socket, "Socket operation on non-socket"),
        (too_few, "shorter"),
        (too_many, "longer"),
        (no_offer, "expected an offer"),
        (refusal, "expected another schema"),
    ],
)
async def test_an_offer_that_cannot_be_taken_is_told_and_leaves_nothing_open(
    answers: Callable[[Channel], Awaitable[None]], told: str, nursery: trio.Nursery
) -> None:
    """What came was no socket any more: the start ended with a traceback."""
    path = socket_path()
    with trio.fail_after(LIMIT_SECONDS):
        await nursery.start(partial(answering, path, answers, ends=False))
        before = open_files()
        with pytest.raises(ConfigurationError, match=told):
            await inherit(path, BROKER)
        await trio.testing.wait_all_tasks_blocked()
        assert open_files() - before == set()
        nursery.cancel_scope.cancel()


async def test_a_process_that_ends_before_it_answers_leaves_nothing_to_take_over(nursery: trio.Nursery) -> None:
    """A drain may be over at this very moment."""
    path = socket_path()
    with trio.fail_after(LIMIT_SECONDS):
        await nursery.start(partial(answering, path, nothing, ends=True))
        assert await inherit(path, BROKER) is None


@asynccontextmanager
async def old_process(path: Path) -> AsyncIterator[Channel]:
    """One that is driven by hand, until it is ready to give."""
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        await listener.bind(path)
        listener.listen(1)
        sock, _ = await listener.accept()
    channel = Channel(sock)
    hello, _ = await channel.receive()
    assert hello == Hello(SCHEMA, BROKER)
    await channel.send(Offer([], []))
    ready, _ = await channel.receive()
    assert ready == Ready()
    yield channel
    channel.close()


STATE = ConnectionState(
    "leader",
    ("", 0),
    "kafka",
    is_opaque=True,
    has_begun=True,
    request_bytes=b"",
    frames=0,
    replica_fetches=0,
    link=LinkMessage("", None, None, has_begun=True, is_live=True, replicas=[], session=None),
)


async def test_a_listener_is_taken_by_its_address_when_settings_before_its_own_have_gone() -> None:
    """Without broker 102 in egress.peers, broker 103's is at another index: its address was found in use."""
    path, address = socket_path(), Address("127.0.103.1", 9092)
    with trio.socket.socket(socket.AF_UNIX) as ours, socket.socket() as listener:
        listening = {("egress.peers[1].listen", address): listener}
        inherited = Inherited(Channel(ours), listening, [], path=path, process=1)
        assert inherited.take_listener("egress.peers[0].listen", address) is listener


async def test_the_leaders_of_what_is_taken_over_can_be_asked_about_the_cluster() -> None:
    """With a transparent egress alone no setting names a broker, and a listed topic whose name nobody tells passes
    unthrottled."""
    met: list[Address] = []

    async def relayed(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()

    for role, leader in (("follower", "10.0.0.102"), ("leader", "10.0.0.101")):
        state = msgspec.structs.replace(STATE, role=role, upstream=(leader, 9092))
        ends = cast("Any", None), cast("Any", None)
        throttles = cast("Any", dict.fromkeys(Role))
        await go_on(
            state, *ends, throttles=throttles, relayed=relayed, meet=lambda leader, _: met.append(leader),
            draining=Draining(),
        )  # fmt: skip
    assert met == [Address("10.0.0.102", 9092)]


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        return dialled, listener.accept()[0]


async def test_why_no_more_connections_came_is_said(nursery: trio.Nursery) -> None:
    """Where a process had no descriptor left, or the old one was killed, the log told nothing but a lower number."""
    new = New()

    async def old() -> None:
        async with old_process(new.path) as channel:
            ends = tcp_pair()
            await channel.send(STATE, [end.fileno() for end in ends])
            await channel._sock.send(b"\0\0")  # the beginning of a message
            channel.close()
            for end in ends:
                end.close()

    held: list[str] = []
    with trio.fail_after(LIMIT_SECONDS):
        nursery.start_soon(old)
        while await new.handover.ask() is None:  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)

        def hold(source: str, _: object, close: Callable[[], object]) -> None:
            held.append(source)
            close()

        await new.handover.take_connections(hold, never)
    assert held == ["127.0.0.1"]
    failed = [line["error"] for line in new.log.lines if line["event"] == "handover_failed"]
    assert failed[-1] == "the process before this one ended before it had handed everything over"
