"""Hostile contents of quotas.toml: mutations, keys of a thousand parts, numbers of a thousand digits, megabytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, ClassVar

import trio

from lab.errors import LabError

from ..cases.case import Case, Door, generator
from ..cases.mutations import mutated
from ..errors import NotRecoveredError
from .scene import Scene

if TYPE_CHECKING:
    from random import Random

    from ..stage.stage import Sidecar, Stage

RELOAD_SECONDS = 3.0
RECOVERY_SECONDS = 10.0
NOTICED_SECONDS = 0.15
"""A watch looks every 40 ms, and waits until a file has rested for as long."""
GOOD = b"""
[brokers.default]
leader.replication.throttled.rate = "50MiB/s"
follower.replication.throttled.rate = 52428800
leader.replication.throttled.replicas = "*"
[brokers.101]
leader.replication.throttled.rate = "20MB/s"
until = 2036-12-01T06:00:00Z
[topics.orders]
leader.replication.throttled.replicas = "0:101,1:101"
follower.replication.throttled.replicas = "*"
[topics."clicks-*"]
follower.replication.throttled.replicas = "0-99:101"
[mode]
enforce = true
[brokers.102]
leader.replication.throttled.rate = { finish_by = "06:00", timezone = "Europe/Berlin", max = "1GiB/s" }
"""


class QuotaFiles(Scene):
    """Hostile quota files, one after the other; after each tenth the good one, which must be taken."""

    name: ClassVar[str] = "quota-files"
    goes_on: ClassVar[bool] = True

    def __init__(self, seed: int, *, count: int) -> None:
        super().__init__(seed)
        self._count = count

    async def run(self, stage: Stage) -> None:
        """Wait until the good file is taken. Raises NotRecoveredError."""
        for number in range(self.things, self._count):
            rng = generator(self.seed, self.name, number)
            content, self.doing = hostile_file(rng)
            self.doing = f"quotas.toml number {number}, {self.doing}: {content[:60]!r}"
            self.case = Case(family=self.name, number=number, door=Door.QUOTAS, chunks=(content,), frames=1)
            self.things += 1
            await stage.sidecar.replace_quotas(content)
            if rng.random() < 0.3:
                await trio.sleep(NOTICED_SECONDS)
            else:
                await reload(stage.sidecar)
            if number % 10 == 9:
                await recovered(stage.sidecar)
        await recovered(stage.sidecar)


def hostile_file(rng: Random) -> tuple[bytes, str]:
    """Return the content of the file, and its kind."""
    kind = rng.choice(("mutated", "mutated", "mutated", "lines", "odd"))
    if kind == "mutated":
        return mutated(rng, GOOD, times=rng.choice((1, 2, 5, 20))), "mutated"
    if kind == "lines":
        lines = GOOD.splitlines(keepends=True)
        return b"".join(rng.choice(lines) for _ in range(rng.choice((5, 30, 300)))), "its lines at random"
    said = rng.choice(list(ODD))
    return ODD[said], said


_RATE = b"[brokers.default]\nleader.replication.throttled.rate = "
_REPLICAS = b"[topics.orders]\nleader.replication.throttled.replicas = "
ODD = {
    "nothing": b"",
    "a number of 5000 digits": _RATE + b"9" * 5000 + b"\n",
    "5000 digits in text": _RATE + b'"' + b"9" * 5000 + b'B/s"\n',
    "20 000 hexadecimal digits": _RATE + b"0x" + b"f" * 20_000 + b"\n",
    "5000 digits of a fraction": _RATE + b"1." + b"1" * 5000 + b"e5000\n",
    "a partition of 5000 digits": _REPLICAS + b'"' + b"1" * 5000 + b':101"\n',
    "a broker of 5000 digits": _REPLICAS + b'"0:' + b"1" * 5000 + b'"\n',
    "a range of 2**62": _REPLICAS + b'"0-4611686018427387904:101"\n',
    "100 000 partitions": _REPLICAS + b'"' + b",".join(b"%d:101" % n for n in range(100_000)) + b'"\n',
    "a key of 3000 parts": b".".join([b"a"] * 3000) + b" = 1\n",
    "a table of 3000 parts": b"[" + b".".join([b"a"] * 3000) + b"]\n",
    "a key of 100 000 parts": b".".join([b"a"] * 100_000) + b" = 1\n",
    "a known key of 3000 parts": b"brokers." + b".".join([b"a"] * 3000) + b" = 1\n",
    "arrays 5000 deep": b"a = " + b"[" * 5000 + b"]" * 5000 + b"\n",
    "tables 3000 deep": b"a = " + b"{a=" * 3000 + b"1" + b"}" * 3000 + b"\n",
    "2000 schedules of an earlier version": b"[[schedules]]\nfrom = 22:00:00\n" * 2000,
    "50 000 topics": b"".join(
        b'[topics.t%d]\nleader.replication.throttled.replicas = "*"\n' % n for n in range(50_000)
    ),
    "5000 globs": b"".join(
        b'[topics."a*%d*b"]\nleader.replication.throttled.replicas = "*"\n' % n for n in range(5000)
    ),
    "a glob of stars": b'[topics."' + b"*a" * 120 + b'"]\nleader.replication.throttled.replicas = "*"\n',
    "no UTF-8": b"\xff\xfe\x00[",
    "zeros": bytes(100_000),
    "8 MB of a comment": b"#" + b"x" * 8_000_000 + b"\n",
    "200 000 problems": b"".join(b"a%d = 1\n" % n for n in range(200_000)),
    "a date of the year 0": b"[brokers.default]\nuntil = 0000-01-01T00:00:00Z\n",
    "an until of every kind": b"[brokers.default]\nuntil = 23:00:00\n",
}


async def reload(sidecar: Sidecar) -> None:
    """Send it by HTTP, and ignore the answer."""
    with trio.move_on_after(RELOAD_SECONDS), contextlib.suppress(OSError):
        await sidecar.get("/-/reload", method="POST")


async def recovered(sidecar: Sidecar) -> None:
    """Write the mode's own quotas, as a file that was not there before, and wait until it holds.

    Raises NotRecoveredError.
    """
    content = sidecar.mode.quotas.encode() + f"# {trio.current_time()}\n".encode()
    await sidecar.replace_quotas(content)
    wanted = hashlib.sha256(content).hexdigest()
    found = ""
    with trio.move_on_after(RECOVERY_SECONDS):
        while not found or not wanted.startswith(found):
            await trio.sleep(0.05)
            if not sidecar.process.running:
                return  # which somebody else sees
            with contextlib.suppress(OSError, ValueError, KeyError, LabError):
                found = json.loads(await sidecar.get("/throttle"))["quotas"]["hash"]
        return
    raise NotRecoveredError(f"a good quotas.toml is not in force {RECOVERY_SECONDS:g} s after it was written")
