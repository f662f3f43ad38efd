"""Asking for racks: when, how often, what comes of the answer, and where nobody answers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from protocol.metadata import cluster_and_racks
from proxy.cluster import broker_client
from proxy.cluster.polling import LOOK_SECONDS, RETRY_SECONDS, follow
from proxy.cluster.questions import RACKS_SECONDS, UNKNOWN_RACK_SECONDS, RackQuestion
from proxy.config.settings import Address
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.finer_rates import Entity, FinerRates
from proxy.quotas.replicas import EVERY_PARTITION
from proxy.throttle.budget_tree import BudgetTree
from proxy.topology.racks import Racks
from tests.proxy.conversation import MIB, Conversation, throttle

from ..metadata_broker import MetadataBroker
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.roles import Role

RACKS = {101: "a", 102: "b"}
OF_RACK = FinerRates(racks={"b": 1.0 * MIB})


BROKER = broker_client.Broker(Address("kafka", 9092))


@dataclass
class Scene:
    """A leader that 102 fetches from, unless there is no connection."""

    finer: FinerRates = OF_RACK
    connected: bool = True
    log: RecordedLog = field(default_factory=RecordedLog)
    changes: int = 0

    def __post_init__(self) -> None:
        self.racks = Racks(101)
        self.throttle = throttle(40 * MIB)
        self.throttle.racks = self.racks
        self.throttle.tree = BudgetTree(self.throttle.budget, self.throttle.selection.names, self.racks)
        quota = RoleQuota(40 * MIB, otherwise=EVERY_PARTITION, finer=self.finer)
        self.throttle.apply(Quotas(leader=quota, follower=quota), 0.0)
        if self.connected:
            self.talk = Conversation(self.throttle)
            self.talk.link.peer = "102"
            self.talk.offsets = {("t", 0): 0}
            self.talk.meet()
            self.talk.link.replicas.fetch_version = 3

    def _changed(self, role: Role) -> None:
        assert role is self.throttle.role
        self.changes += 1

    @asynccontextmanager
    async def asking(self, broker: MetadataBroker | None, patch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        """Without sockets. None: nobody listens."""

        async def connect(address: Address) -> trio.abc.Stream:
            if broker is None:
                raise ConnectionRefusedError(f"{address}: nobody listens")
            near, far = trio.testing.memory_stream_pair()
            nursery.start_soon(broker.serve, far)
            return near

        patch.setattr(broker_client, "open_stream", connect)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, RackQuestion(self.racks, [self.throttle], self._changed), [BROKER], self.log)
            yield
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [4, 12])
def test_an_answer_tells_racks_and_who_is_in_none(version: int) -> None:
    broker = MetadataBroker({"t": 1}, racks={**RACKS, 103: None})
    assert cluster_and_racks(broker.answer([], version), version=version) == ("c", {**RACKS, 103: ""})


async def test_a_rate_of_a_rack_holds_as_soon_as_racks_are_told(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    scene, broker = Scene(), MetadataBroker({}, racks=RACKS)
    assert scene.throttle.rack_warnings().unknown == ("102",)
    assert sum(scene.talk.asked_for(scene.talk.ask()).values()) == MIB
    scene.talk.now = 1.0
    async with scene.asking(broker, monkeypatch):
        await trio.sleep(0.5)
        assert scene.changes == 1
        assert not scene.throttle.rack_warnings().unknown
        assert scene.throttle.tree.trunk("102")[1:] == [scene.throttle.tree.inner[Entity("rack", "b")]]
        assert sum(scene.talk.asked_for(scene.talk.decide()).values()) == MIB // 4
        await trio.sleep(RACKS_SECONDS + 1)
    assert broker.asked == [[], []]
    assert scene.changes == 1
    assert scene.log.events == []


async def test_without_a_rate_of_a_rack_it_is_asked_once_a_minute_while_there_are_connections(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    scene, broker = Scene(finer=FinerRates()), MetadataBroker({}, racks=RACKS)
    async with scene.asking(broker, monkeypatch):
        await trio.sleep(UNKNOWN_RACK_SECONDS - 0.5)
        assert broker.asked == []
        await trio.sleep(RACKS_SECONDS * 2.1)
    assert broker.asked == [[], [], []]
    alone, silent = Scene(finer=FinerRates(), connected=False), MetadataBroker({}, racks=RACKS)
    async with alone.asking(silent, monkeypatch):
        await trio.sleep(RACKS_SECONDS * 2)
    assert silent.asked == []


async def test_a_broker_that_is_met_anew_is_asked_for_at_once_and_then_now_and_then(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    scene, broker = Scene(connected=False), MetadataBroker({}, racks=RACKS)
    async with scene.asking(broker, monkeypatch):
        await trio.sleep(10.5)
        assert len(broker.asked) == 1
        stranger = Conversation(scene.throttle)
        stranger.link.peer, stranger.link.replicas.fetch_version = "107", 3
        await trio.sleep(1.1)
        assert len(broker.asked) == 2
        await trio.sleep(2.1 * UNKNOWN_RACK_SECONDS)
        assert 3 <= len(broker.asked) <= 4
        assert scene.throttle.rack_warnings().unknown == ("107",)
        broker.racks = {**RACKS, 107: "b"}
        await trio.sleep(UNKNOWN_RACK_SECONDS + 2)
    assert not scene.throttle.rack_warnings().unknown


async def test_where_nobody_answers_nothing_is_bounded_by_it_and_it_is_told_once(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    scene = Scene()
    async with scene.asking(None, monkeypatch):
        await trio.sleep(RACKS_SECONDS)
    assert scene.log.events == ["cluster_request_failed"]
    assert scene.changes == 0
    assert sum(scene.talk.asked_for(scene.talk.ask()).values()) == MIB


async def test_the_journals_place_is_asked_for_with_the_first_replica_until_a_broker_answers(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    broker, learnt, tries = MetadataBroker({}, racks=RACKS), list[tuple[str, str]](), list[Address]()

    async def connect(address: Address) -> trio.abc.Stream:
        tries.append(address)
        if len(tries) == 1:
            raise ConnectionRefusedError(f"{address}: nobody listens")
        near, far = trio.testing.memory_stream_pair()
        nursery.start_soon(broker.serve, far)
        return near

    monkeypatch.setattr(broker_client, "open_stream", connect)
    role = throttle(MIB)
    question = RackQuestion(Racks(101), [role], lambda _: None, lambda *place: learnt.append(place))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, question, [BROKER], RecordedLog())
        await trio.sleep(60)
        assert tries == []
        replica = Conversation(role)
        replica.link.peer = "102"
        await trio.sleep(2 * LOOK_SECONDS)
        assert (len(tries), learnt) == (1, [])
        await trio.sleep(RETRY_SECONDS + LOOK_SECONDS)
        assert (broker.asked, learnt) == ([[]], [("c", "a")])
        await trio.sleep(RACKS_SECONDS + 2 * LOOK_SECONDS)
        assert (broker.asked, learnt) == ([[], []], [("c", "a")])
        nursery.cancel_scope.cancel()
