"""Whatever happens to quotas, lists and connections, in any order: nothing is missed once the throttle is lifted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lab.embedded.session_values import Ask
from proxy.config.settings import Policy
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.replicas import Partitions
from proxy.throttle.decision import Forward, Hold
from tests.proxy.conversation import LIMIT, MIB, quotas, throttle
from tests.proxy.session_conversation import SessionConversation, SessionLeader, only, session_frame, topic_of

HAPPENS = st.lists(
    st.one_of(
        st.just(("fetch",)),
        st.just(("fetch",)),
        st.tuples(st.just("rate"), st.sampled_from([0, 64 * 1024, 4 * MIB, 400 * MIB, float("inf")])),
        st.tuples(st.just("list"), st.sampled_from(["all", "none", "t", "u", "t:0"])),
        st.tuples(st.just("enforce"), st.booleans()),
        st.tuples(st.just("produce"), st.integers(0, 4)),
        st.tuples(st.just("assign"), st.integers(0, 4)),
        st.tuples(st.just("hold"), st.sampled_from([0.001, 0.1, 0.7])),
        st.just(("reconnect",)),
        st.just(("restart",)),
        st.just(("evict",)),
        st.just(("names",)),
        st.tuples(st.just("undecoded"), st.booleans()),
        st.just(("garbled answer",)),
    ),
    min_size=5,
    max_size=50,
)

METHODS = {"rate": "change_rate", "enforce": "enforced", "garbled answer": "garbled_answer"}


class Flips:
    """A conversation to which things happen, and what must be true of it all the while."""

    def __init__(self, version: int, policy: Policy, slots: int) -> None:
        self.keys = [(topic_of(version, name), p) for name, p in (("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1))]
        self.policy = policy
        self.strays = 0
        """Sessions that the leader may have opened and nobody heard of."""
        self.rate, self.listed, self.enforce = 4.0 * MIB, "all", True
        leader = SessionLeader(dict.fromkeys(self.keys, 3000), slots=slots)
        wants = {key: 3000 if number % 2 else 0 for number, key in enumerate(self.keys)}
        self.talk = SessionConversation(throttle(self.rate, policy=policy), wants, leader, version)

    def happen(self, what: str, *how: object) -> None:
        getattr(self, what)(*how)
        talk = self.talk
        assert talk.follower.complaints == []
        assert talk.leader.cache.emptied == 0
        assert len(talk.leader.cache.sessions) <= 3 + self.strays
        self.leaves_out_what_is_behind()

    def leaves_out_what_is_behind(self) -> None:
        """What a session lacks at the leader is what a walk through all replicas would find."""
        link = self.talk.link
        sent, moved, behind = link.session.sent, link.replicas.moved, link.replicas.behind
        if sent is None or sent.session is None or moved is None:
            return
        for key in sent.partitions.keys() - moved:
            assert (key in sent.absent) == (key in behind and key not in link.session._asked), key

    def fetch(self) -> None:
        self.talk.fetch()
        self.talk.now += 0.01

    def hold(self, seconds: float) -> None:
        """Time passes between the first decision and the last, and quotas change meanwhile."""
        decision = self.talk.ask()
        if isinstance(decision, Hold):
            self.talk.now += seconds
            self.rate, before = 4.0 * MIB, self.rate
            self.apply()
            decision = self.talk.decide()
            self.rate = before
            self.apply()
        self.talk.hear(self.talk.waited(decision))

    def apply(self) -> None:
        self.talk.throttle.apply(self.quotas(), self.talk.now)

    def quotas(self) -> Quotas:
        match self.listed:
            case "all":
                found = quotas(self.rate)
            case "none":
                found = Quotas(leader=RoleQuota(self.rate), follower=RoleQuota(self.rate))
            case "t:0":
                found = only("t", self.rate, Partitions(frozenset({0})))
            case name:
                found = only(name, self.rate)
        return replace(found, enforce=self.enforce)

    def change_rate(self, rate: float) -> None:
        self.rate = rate
        self.apply()

    def lift(self, how: str) -> None:
        match how:
            case "list":
                self.list("none")
            case "rate":
                self.change_rate(float("inf"))
            case _:
                self.enforced(False)
        self.talk.now += 20  # whatever debt there was is forgotten

    def list(self, which: str) -> None:
        self.listed = which
        self.apply()

    def enforced(self, enforce: bool) -> None:
        self.enforce = enforce
        self.apply()

    def produce(self, number: int, count: int = 50) -> None:
        self.talk.leader.ends[self.keys[number]] += count

    def assign(self, number: int) -> None:
        """Another partition is this follower's, or no longer; one stays."""
        key, wants = self.keys[number], self.talk.wants
        if key not in wants:
            wants[key] = min(self.talk.leader.ends[key], 1000)
        elif len(wants) > 1:
            del wants[key]

    def reconnect(self) -> None:
        self.talk.reconnect()
        self.talk.follower.failed()

    def restart(self) -> None:
        self.talk.link.close()
        self.talk.throttle = throttle(self.rate, policy=self.policy)
        self.apply()
        del self.talk.link
        self.talk.reconnect()

    def undecoded(self, shows_session: bool) -> None:
        """A request is not understood: it passes, unless it may go on with a session that is translated."""
        talk = self.talk
        request = talk.follower.build({key: Ask(offset, LIMIT) for key, offset in talk.wants.items()})
        session = (request.session_id, request.session_epoch) if shows_session else None
        talk.link.forget()
        if talk.link.translator.undecoded(session):
            self.reconnect()
        else:
            talk.frame = session_frame(talk.version, request)
            talk.hear(Forward(None, None))
            self.strays += 1  # what it opened is answered 70 where it would go on, and left to the leader's cache

    def garbled_answer(self) -> None:
        """The leader's answer is not understood: it is given up, and its connection ends."""
        talk = self.talk
        decision = talk.waited(talk.ask())
        if isinstance(decision, Forward) and decision.pending is not None:
            talk.leader.answer(talk.frame if decision.frame is None else decision.frame, talk.now)
            decision.pending.lost(talk.now)
            self.strays += 1
            self.reconnect()
        else:
            talk.hear(decision)

    def evict(self) -> None:
        self.talk.leader.cache.sessions.clear()

    def names(self) -> None:
        if self.talk.version >= 13:
            self.talk.throttle.selection.names.learn({key[0]: bytes(key[0]).decode()[0] for key in self.keys})


@given(
    happens=HAPPENS,
    version=st.sampled_from([7, 11, 12, 13, 17, 18]),
    policy=st.sampled_from([Policy.STRICT, Policy.KIP73]),
    slots=st.sampled_from([0, 1000]),
    lifted=st.sampled_from(["list", "rate", "enforce"]),
)
@example(
    happens=[("undecoded", False), ("fetch",), ("undecoded", False), ("fetch",), ("restart",)],
    version=7,
    policy=Policy.STRICT,
    slots=1000,
    lifted="list",
)
@settings(max_examples=150)
def test_whatever_happens_every_partition_reaches_the_end_once_the_throttle_is_lifted(
    happens: list[tuple[object, ...]], version: int, policy: Policy, slots: int, lifted: str
) -> None:
    """Where lists stay as they are, within the session that was translated."""
    flips = Flips(version, policy, slots)
    for what, *how in happens:
        flips.happen(METHODS.get(str(what), str(what)), *how)
    for number in range(len(flips.keys)):
        flips.happen("produce", number, 2000)
    for _ in range(4):  # whatever came last, something is omitted now, if anything may be
        flips.happen("fetch")
    flips.lift(lifted)
    for _ in range(25):
        flips.happen("fetch")
    assert flips.talk.lag == 0
