"""Faults drawn from a seed, as values that can be left out: of lines, brokers, fetchers, peers, quotas, clocks.

All of them are over at `ENDS` of the scene's time, so shares can be judged after it.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

from lab.embedded.session_values import Ask
from protocol.session.requests import SessionRequest

from ..proxy.conversation import MIB
from .broker import NOT_LEADER
from .clients import Caller, Client
from .messages import FetchOptions, fetch_request
from .scene import Act, Fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scene import Scene, World

ENDS = 12.0
"""Seconds after which no fault is under way."""
KINDS = (
    "stall", "small_window", "reset", "pause_broker", "pause_fetcher", "partition_error", "refusal", "refused_peer",
    "deaf_consumer", "storm", "quota_change", "clock_step", "slow_broker", "jitter", "half_frame", "late_follower",
)  # fmt: skip


def drawn_faults(scene: Scene, seed: int, most: int = 8) -> Scene:
    """Return the scene with acts, cuts and busy turns drawn from the seed."""
    draw = random.Random(f"faults {seed}")
    acts = tuple(sorted((fault(draw, scene) for _ in range(draw.randint(1, most))), key=lambda act: act.at))
    return scene._replace(acts=acts, cuts=draw.choice([0, 0.2, 0.8]), busy=draw.choice([0, 0, 0.05, 0.3]))


def fault(draw: random.Random, scene: Scene) -> Act:
    kind = draw.choice(KINDS)
    at = draw.uniform(0.2, ENDS - 3.5)
    seconds = draw.choice([0.05, 0.3, 1.0, 3.0])
    return Act(at, kind, _BY_KIND[kind](draw, scene, seconds))


def _line(draw: random.Random, scene: Scene) -> Callable[[World], Any]:
    fetch = draw.choice(scene.fetches)
    hosts = draw.choice([(fetch.follower, fetch.leader), (fetch.leader, fetch.follower)])
    return lambda world: world.line(*hosts)


def _stall(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    line = _line(draw, scene)

    def act(world: World) -> None:
        line(world).stalled_until = world.network.now + seconds

    return act


def _for_a_while(draw: random.Random, scene: Scene, seconds: float, name: str, value: float) -> Callable[[World], None]:
    line = _line(draw, scene)

    def act(world: World) -> None:
        found = line(world)
        before = getattr(found, name)
        setattr(found, name, value)
        world.network.at(world.network.now + seconds, setattr, found, name, before)

    return act


def _small_window(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    return _for_a_while(draw, scene, seconds, "window", draw.choice([4096, 65_536]))


def _jitter(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    return _for_a_while(draw, scene, seconds, "jitter", draw.choice([0.02, 0.2]))


def _reset(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    del scene, seconds
    place = draw.random()

    def act(world: World) -> None:
        ends = world.open_ends()
        if ends:
            ends[int(place * len(ends))].reset()

    return act


def _pause_broker(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    leader = draw.choice(scene.fetches).leader

    def act(world: World) -> None:
        world.broker(leader).paused_until = world.network.now + seconds

    return act


def _slow_broker(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    leader, service = draw.choice(scene.fetches).leader, draw.choice([0.01, 0.15])

    def act(world: World) -> None:
        broker = world.broker(leader)
        broker.service_seconds = service
        world.network.at(world.network.now + seconds, setattr, broker, "service_seconds", 0.0)

    return act


def _pause_fetcher(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    name = draw.choice(draw.choice(scene.fetches).names())

    def act(world: World) -> None:
        if name in world.fetchers:
            world.fetchers[name].paused_until = world.network.now + seconds

    return act


def _partition_error(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    leader, place, code = draw.choice(scene.fetches).leader, draw.random(), draw.choice([NOT_LEADER, 1, 74])

    def act(world: World) -> None:
        broker = world.broker(leader)
        keys = list(broker.logs)
        broker.errors[keys[int(place * len(keys))]] = (world.network.now + seconds, code)

    return act


def _refusal(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    fetch = draw.choice(scene.fetches)

    def act(world: World) -> None:
        broker = world.broker(fetch.leader)
        broker.refuses.add(fetch.follower)
        world.network.at(world.network.now + seconds, broker.refuses.discard, fetch.follower)

    return act


def _refused_peer(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    """A broker without ClusterAction, which asks again at once or as often as an honest fetcher."""
    leader, backoff, connections = draw.choice(scene.fetches).leader, draw.choice([0.02, 1.0]), draw.choice([1, 4])

    def act(world: World) -> None:
        world.broker(leader).refuses.add(700)
        peers = world.add(Fetch(700, leader, connections=connections, first=500), backoff_seconds=backoff)
        for peer in peers:
            world.network.at(min(world.network.now + 2 * seconds, ENDS), peer.stop)

    return act


def _deaf_consumer(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    leader = draw.choice(scene.fetches).leader

    def act(world: World) -> None:
        keys = [key for key in world.broker(leader).logs if isinstance(key[0], str)]
        topics = {str(keys[0][0]): 4} if keys else {"t": 1}
        Client("deaf", leader, "deaf", topics, begins=world.network.now).join(world)
        world.network.at(min(world.network.now + 2 * seconds, ENDS), world.silence)

    return act


def _storm(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    leader, resets = draw.choice(scene.fetches).leader, draw.random() < 0.5
    first = draw.choice(
        [b"", b"\0\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10\0\x12\0\3\0\0\0\1", b"\x16\x03\x01\x02\0"]
    )

    def act(world: World) -> None:
        for number in range(60):
            begins = world.network.now + number * seconds / 60
            world.network.at(begins, partial(_call, world, leader, first, resets=resets))

    return act


def _call(world: World, leader: int, first: bytes, *, resets: bool) -> None:
    Caller(world.network, world.dial(901, leader), first, resets=resets, stays=0.05)


def _half_frame(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    leader, version, part = draw.choice(scene.fetches).leader, draw.choice([3, 11, 12]), draw.random()
    return partial(half_fetch, leader=leader, version=version, part=part, seconds=seconds)


def half_fetch(world: World, leader: int, version: int, part: float, seconds: float, count: int = 400) -> None:
    """Send a replica's Fetch of which the end never comes, until its peer goes."""
    listed = {("t", number): Ask(0, MIB, 0, -1, 0) for number in range(count)}
    frame = fetch_request(FetchOptions(version, 701, "half"), SessionRequest(version, listed, 0, 0), 1)
    sent = frame[: 20 + int(part * (len(frame) - 20))]
    Caller(world.network, world.dial(701, leader), sent, resets=False, stays=seconds)


def _quota_change(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    """A role's rate is another one for a while, and sometimes nothing is selected, or nothing is enforced."""
    broker, spec = draw.choice(sorted(scene.sidecars.items()))
    factor = draw.choice([0.0, 0.1, 0.5, 2.0, 8.0])
    how = draw.choice(["rate", "rate", "mode", "lists"])

    def act(world: World) -> None:
        sidecar = world.sidecars[broker]
        if how == "mode":
            changed = spec.quotas + "[mode]\nenforce = false\n"
        elif how == "lists":
            changed = spec.quotas.replace('replicas = "*"', 'replicas = ""')
        else:
            changed = _scaled(spec.quotas, factor)
        sidecar.change(changed)
        world.network.at(world.network.now + seconds, sidecar.change, spec.quotas)

    return act


def _scaled(quotas: str, factor: float) -> str:
    lines = []
    for line in quotas.splitlines():
        key, equals, value = line.partition(" = ")
        lines.append(f"{key} = {int(int(value) * factor)}" if equals and key.endswith("rate") else line)
    return "\n".join(lines) + "\n"


def _clock_step(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    """The wall clock jumps, and a section that ends by it begins or ends to count."""
    broker, spec = draw.choice(sorted(scene.sidecars.items()))
    hours = draw.choice([-5.0, 5.0])

    def act(world: World) -> None:
        sidecar = world.sidecars[broker]
        rates = "".join(f"{role}.replication.throttled.rate = 100000\n" for role in ("leader", "follower"))
        until = f"[brokers.{broker}]\n{rates}until = 2030-01-01T01:00:00Z\n"
        sidecar.change(spec.quotas + until)
        sidecar.step_clock(hours * 3600)
        world.network.at(world.network.now + seconds, sidecar.step_clock, -hours * 3600)
        world.network.at(world.network.now + seconds, sidecar.change, spec.quotas)

    return act


def _late_follower(draw: random.Random, scene: Scene, seconds: float) -> Callable[[World], None]:
    """Another fetcher of a follower that is there, for a while, with hundreds of partitions."""
    fetch, count = draw.choice(scene.fetches), draw.choice([1, 200])

    def act(world: World) -> None:
        made = world.add(fetch._replace(topics={"late": count}, connections=1, first=1000, begins=0.0, live={}))
        for each in made:
            world.network.at(min(world.network.now + 2 * seconds, ENDS), each.stop)

    return act


_BY_KIND = {
    "stall": _stall, "small_window": _small_window, "reset": _reset, "pause_broker": _pause_broker,
    "pause_fetcher": _pause_fetcher, "partition_error": _partition_error, "refusal": _refusal,
    "refused_peer": _refused_peer, "deaf_consumer": _deaf_consumer, "storm": _storm, "quota_change": _quota_change,
    "clock_step": _clock_step, "slow_broker": _slow_broker, "jitter": _jitter, "half_frame": _half_frame,
    "late_follower": _late_follower,
}  # fmt: skip
