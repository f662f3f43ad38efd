"""Whatever happens between follower and leader, nothing is left behind, and nobody sees what it did not ask for."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant

from protocol.session.requests import FETCH_SESSION_ID_NOT_FOUND, Choice
from tests.protocol.session.session_events import SessionEvents
from tests.protocol.session.world import RESPONSE_BYTES


class SessionMachine(SessionEvents):
    """After each event: what must be true at all times. At the end: everything has arrived."""

    @invariant()
    def nothing_impossible_was_seen(self) -> None:
        follower = self.world.follower
        assert self.world.violations == []
        assert follower.handler.complaints == []
        assert follower.failed == []
        assert follower.fenced == []
        assert set(follower.handler.errors) <= {FETCH_SESSION_ID_NOT_FOUND}
        assert len(follower.handler.errors) <= self.doubts * len(self.world.sidecars)

    @invariant()
    def the_leader_s_session_is_what_the_last_sidecar_believes(self) -> None:
        for session_id, cached in self.world.leader.cache.sessions.items():
            place = self.world.sidecars[-1].sessions.find("leader", session_id)
            if place is None:
                continue
            wanted, session = place.session.partitions, place.session
            assert cached.epoch == session.leader_epoch
            assert set(cached.partitions) <= set(wanted) | set(session._unforgotten)
            assert set(wanted) - session.absent - {k for k, new in session._unsent.items() if new} == set(
                cached.partitions
            ) - set(session._unforgotten)
            for key in cached.partitions.keys() - session._unforgotten.keys() - session._unsent.keys():
                ask = wanted[key]
                limit = session._lowered.get(key, ask.partition_max_bytes)
                assert cached.partitions[key].ask == ask._replace(partition_max_bytes=limit)

    @invariant()
    def the_follower_s_session_is_what_the_first_sidecar_believes(self) -> None:
        handler = self.world.follower.handler
        place = self.world.sidecars[0].sessions.find("leader", handler.session_id)
        if place is None or handler.is_full or place.session.version != handler.version:
            return
        if place.session.follower_epoch == handler.epoch:
            assert place.session.partitions == handler.partitions

    def teardown(self) -> None:
        """The throttle is lifted: everything arrives, in as many fetches as the bytes take and a few to begin again."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for sidecar in world.sidecars:
            sidecar.choice = Choice()
        for log in world.leader.logs.values():
            log.error_code, log.high_watermark = 0, log.end
        backlog = sum(world.leader.logs[key].end - log.end for key, log in world.follower.wanted.items())
        for _ in range(3 + len(world.sidecars) + -(-backlog // RESPONSE_BYTES)):
            world.fetch()
            self.nothing_impossible_was_seen()
        behind = {
            key: (log, world.leader.logs[key])
            for key, log in world.follower.wanted.items()
            if (log.end, log.high_watermark) != (world.leader.logs[key].end, world.leader.logs[key].high_watermark)
        }
        assert behind == {}


TestSessionMachine = pytest.mark.timeout(240)(SessionMachine.TestCase)
TestSessionMachine.settings = settings(max_examples=150, stateful_step_count=40)
