"""Moves drawn at random: what journals would say of them up to a moment, and how they go on from there.

A small world of its own, which shares no code with the model that is judged by it. Links share the quotas at both
their ends by exact water-filling, with weights that are not quite equal; machines have speeds that wander, replicas
messages of different sizes; fetches come in lumps, for which a token bucket makes up. Quotas, rivals and producers
change at drawn moments; after the last one nothing changes any more but by somebody's having ended.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.model.pace import History

MB = 1e6
LINE_SECONDS = 15
STEP_SECONDS = 0.5
NEVER_SECONDS = 7200.0
KINDS = ("raise", "lower", "unlimited", "rival comes", "rival goes", "producers start", "producers stop")
TARGET = ("A", "B")
RIVALS = (("A", "C"), ("D", "B"))
LEADER, FOLLOWER = ("A", "leader"), ("B", "follower")
DONE_BYTES = 1.0

Key = tuple[str, str]


@dataclass
class Replica:
    backlog: float
    """Bytes that it lacks."""
    writes: float
    """Bytes per second of its producers."""
    told: float
    """The size of its messages, as far as it can be told from those that were brought, over what it is."""
    stuck: bool = False


@dataclass
class Link:
    key: Key
    speed: float
    noise: float
    weight: float
    lumps: float
    """Bytes by which a second's may be more or fewer."""
    replicas: list[Replica]
    present: bool = True
    wander: float = 1.0
    owed: float = 0.0
    first: int = 0
    gained: dict[int, float] = field(default_factory=dict)
    written: dict[int, float] = field(default_factory=dict)

    def behind(self) -> list[Replica]:
        return [one for one in self.replicas if one.backlog > DONE_BYTES]

    def served(self) -> list[Replica]:
        return [one for one in self.behind() if not one.stuck]


class Told(NamedTuple):
    """What the journals say at `now`, and the truth: seconds from then (infinity: never)."""

    now: int
    links: list[History]
    """The first one is asked about."""
    limits: dict[Key, list[tuple[int, float]]]
    left: list[float]
    in_sync: dict[Key, float]
    since_change: int
    kinds: tuple[str, ...]
    truth: float


class World:
    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.now = 0.0
        quota = draw.uniform(2, 20) * MB
        self.quotas = {LEADER: quota, FOLLOWER: quota * draw.choice([0.6, 1.0, 1.0, 2.0])}
        self.in_sync = draw.choice([0.0, 0.0, draw.uniform(0.02, 0.2) * quota])
        self.links = {TARGET: self._link(TARGET, quota)}
        for rival in RIVALS:
            if draw.random() < 0.5:
                self.links[rival] = self._link(rival, quota)
        self.limits = {side: [(-100, limit)] for side, limit in self.quotas.items()}

    def _link(self, key: Key, quota: float) -> Link:
        draw = self.draw
        speed = quota * draw.uniform(0.3, 0.8) if draw.random() < 0.25 else draw.uniform(25, 100) * MB
        number = draw.randint(1, 6)
        total = quota * draw.uniform(150, 500) / (2 if key == TARGET else 3)
        writes = draw.choice([0.0, 0.0, draw.uniform(0.02, 0.3) * quota])
        replicas = [
            Replica(total / number * draw.uniform(0.5, 1.5), writes / number, draw.gauss(1, 0.015))
            for _ in range(number)
        ]
        noise, lumps = draw.choice([0.02, 0.05, 0.15]), draw.uniform(0.02, 0.12) * quota
        return Link(key, speed, noise, draw.gauss(1, 0.03), lumps, replicas, first=int(self.now))

    def run(self, until: float, *, stop_when_done: bool = False) -> float:
        """Go on; return when the target had caught up, or infinity."""
        while self.now < until:
            if stop_when_done and not self.links[TARGET].served():
                return self.now
            self._step()
        return math.inf

    def in_sync_at(self, side: Key) -> float:
        of_links = sum(
            one.writes for link in self.links.values() if link.present and side[0] in link.key
            for one in link.replicas if one.backlog <= DONE_BYTES
        )  # fmt: skip
        return self.in_sync + of_links

    def _step(self) -> None:
        draw, second = self.draw, int(self.now)
        here = [link for link in self.links.values() if link.present and link.served()]
        for link in here:
            link.wander += 0.15 * (1 - link.wander) + draw.gauss(0, link.noise) * math.sqrt(STEP_SECONDS)
            link.wander = min(max(link.wander, 0.3), 2.0)
        for link, share in zip(here, self._shares(here), strict=True):
            lump = draw.gauss(0, link.lumps) * STEP_SECONDS
            moved = max(share * STEP_SECONDS + lump - link.owed, 0.0)
            link.owed += moved - share * STEP_SECONDS
            served = link.served()
            brought = 0.0
            for one in served:
                part = min(moved / len(served), one.backlog)
                one.backlog -= part
                brought += part
            link.gained[second] = link.gained.get(second, 0.0) + brought
        for link in self.links.values():
            written = sum(one.writes for one in link.behind()) * STEP_SECONDS
            if link.present:
                link.written[second] = link.written.get(second, 0.0) + written
                for one in link.behind():
                    one.backlog += one.writes * STEP_SECONDS
        self.now += STEP_SECONDS

    def _shares(self, here: list[Link]) -> list[float]:
        """Raise all alike, by their weights, until a quota or a machine has no more; the others go on."""
        room = {side: max(limit - self.in_sync_at(side), 0.0) for side, limit in self.quotas.items()}
        shares = [0.0] * len(here)
        growing = set(range(len(here)))
        while growing:
            members = {side: [one for one in growing if side[0] in here[one].key] for side in room}
            more = min(
                *(room[side] / sum(here[one].weight for one in own) for side, own in members.items() if own),
                *((here[one].speed * here[one].wander - shares[one]) / here[one].weight for one in growing), math.inf,
            )  # fmt: skip
            for one in growing:
                shares[one] += more * here[one].weight
            for side, own in members.items():
                room[side] -= more * sum(here[one].weight for one in own)
            full = {one for side, own in members.items() if room[side] <= 1e-3 for one in own}
            full |= {one for one in growing if shares[one] >= here[one].speed * here[one].wander * (1 - 1e-9)}
            growing -= full
        return shares

    def change(self, kind: str) -> bool:
        """Change something now; False: that is not possible here."""
        draw = self.draw
        if kind in ("raise", "lower", "unlimited"):
            factor = draw.uniform(1.5, 4) if kind == "raise" else draw.uniform(0.25, 0.7)
            for side in draw.choice([[LEADER], [FOLLOWER], [LEADER, FOLLOWER]]):
                if kind != "unlimited" and not math.isfinite(self.quotas[side]):
                    return False
                self.quotas[side] = math.inf if kind == "unlimited" else self.quotas[side] * factor
                self.limits[side].append((int(self.now), self.quotas[side]))
            return True
        if kind == "rival comes":
            free = [rival for rival in RIVALS if rival not in self.links]
            if free:
                key = draw.choice(free)
                self.links[key] = self._link(key, draw.uniform(5, 20) * MB)
            return bool(free)
        if kind == "rival goes":
            here = [link for key, link in self.links.items() if key != TARGET and link.present and link.behind()]
            if here:
                draw.choice(here).present = False
            return bool(here)
        target = self.links[TARGET]
        if any(one.writes for one in target.replicas) == (kind == "producers start"):
            return False
        rate = draw.uniform(0.05, 0.4) * min(20 * MB, *self.quotas.values()) if kind == "producers start" else 0.0
        for one in target.replicas:
            one.writes = rate / len(target.replicas)
        return True


def generate(seed: int, *, since: tuple[float, float] = (10, 70), stuck: bool = False) -> Told | None:
    """Draw a move, as it is told so many seconds after its last change; None if it had ended by then.

    stuck: one of its replicas is brought nothing any more from that change on.
    """
    world = World(seed)
    draw = world.draw
    world.run(draw.uniform(5, 60))
    kinds, changed = [], 0.0
    for _ in range(draw.randint(1, 3)):
        world.run(world.now + draw.uniform(5, 60))
        kind = draw.choice(KINDS)
        if world.change(kind):
            kinds.append(kind)
            changed = world.now
    if stuck:
        draw.choice(world.links[TARGET].replicas).stuck = True
    now = math.ceil(max(changed + draw.uniform(*since), world.now))
    world.run(now)
    if not world.links[TARGET].served() or not kinds:
        return None
    told = _told(world, now, int(changed), tuple(kinds))
    return told._replace(truth=world.run(now + NEVER_SECONDS, stop_when_done=True) - now)


def _told(world: World, now: int, changed: int, kinds: tuple[str, ...]) -> Told:
    histories, left = [], []
    phase = world.draw.randrange(LINE_SECONDS)
    for link in world.links.values():
        here = link.behind() if link.present else []
        lines = []
        begins = link.first
        while begins < now:
            ends = min(begins + LINE_SECONDS - (begins - phase) % LINE_SECONDS, now)
            lines.append((float(ends - begins), sum(link.written.get(at, 0.0) for at in range(begins, ends))))
            begins = ends
        gained = tuple(link.gained.get(at, 0.0) for at in range(link.first, now))
        histories.append(History(*link.key, link.first, gained, tuple(lines)))
        left.append(sum(one.backlog * one.told for one in here if not one.stuck))
    in_sync = {side: world.in_sync_at(side) for side in world.quotas}
    return Told(now, histories, world.limits, left, in_sync, now - changed, kinds, math.inf)
