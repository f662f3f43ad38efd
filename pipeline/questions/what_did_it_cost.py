"""The cost of replication: bytes by topic and by pair of racks, and the price of the bytes between racks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from ..jobs.link_ends import linked
from ..tables import CachedFrames
from ..terminal import printable
from .answer import Answer, Verdict, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..tables import Tables
    from ..units import Units

QUESTION = "what-did-it-cost"
MAX_LISTED = 8
GIB = 1 << 30


class Carried(NamedTuple):
    """bytes: of all. topics: the largest. racks: by pair of racks, each None where the journals do not say it."""

    bytes: int
    all_topics: int = 0
    topics: tuple[tuple[str, int], ...] = ()
    racks: tuple[tuple[str | None, str | None, int], ...] = ()

    @property
    def between(self) -> int:
        """Bytes between two racks."""
        return sum(size for one, other, size in self.racks if one is not None and other is not None and one != other)

    @property
    def unknown(self) -> int:
        """Bytes of which a rack is not known."""
        return sum(size for one, other, size in self.racks if one is None or other is None)


def facts(tables: Tables) -> Carried:
    """Work it out: the largest topics, and all pairs of racks."""
    # A link has an end at another broker, whose own file says its rack, whichever brokers are asked about.
    return carried(tables.traffic, tables.within(tables.scope._replace(brokers=())).events)


def carried(traffic: DataFrame, events: DataFrame) -> Carried:
    """Return the facts from rows of traffic and events. Of a link and topic the end counts that saw more bytes."""
    with CachedFrames() as held:
        link = ("source", "destination", "topic")
        ends = linked(traffic).groupBy(*link, "role").agg(F.sum("wire_bytes").alias("bytes"))
        each = held.once(ends.groupBy(*link).agg(F.max("bytes").alias("bytes")).where("bytes > 0"))
        by_topic = each.groupBy("topic").agg(F.sum("bytes").alias("bytes"))
        topics = by_topic.orderBy(F.desc("bytes"), "topic").limit(MAX_LISTED).collect()
        opened = events.where("kind = 'file_opened' and rack is not null").groupBy(F.col("broker").cast("string"))
        racks = held.once(opened.agg(F.max_by("rack", "time").alias("rack")))
        placed = each.groupBy("source", "destination").agg(F.sum("bytes").alias("bytes"))
        for side, own in (("source", "from_rack"), ("destination", "to_rack")):
            placed = placed.join(F.broadcast(racks.toDF(side, own)), on=side, how="left")
        pairs = placed.groupBy("from_rack", "to_rack").agg(F.sum("bytes").alias("bytes"))
        rows = pairs.orderBy(F.desc("bytes"), "from_rack", "to_rack").collect()
        return Carried(
            sum(row.bytes for row in rows), by_topic.count(), tuple((row.topic, row.bytes) for row in topics),
            tuple((row.from_rack, row.to_rack, row.bytes) for row in rows),
        )  # fmt: skip


def answer(found: Carried, units: Units, *, price: float | None = None) -> Answer:
    """Tell it; `number` is the price of the bytes between racks, or without a `price` per GiB these bytes."""
    if not found.bytes:
        return Answer(QUESTION, Verdict.UNKNOWN, "Nothing was carried.", 0.0, "bytes")

    def cost(size: int) -> str:
        return "" if price is None else f", {price * size / GIB:,.2f}"

    whole = f"{units.size(found.bytes)} in {counted(found.all_topics, 'topic')}"
    doubts = ["bytes of entries with records, as leaders sent them; consumers and producers are not in it"]
    if found.unknown:
        doubts.append(f"of {units.size(found.unknown)} the journals do not say both racks")
    evidence = [
        f"{_rack(one)} to {_rack(other)}: {units.size(size)}{cost(size) if one != other else ''}"
        for one, other, size in found.racks[:MAX_LISTED]
    ]
    evidence += [f"{printable(topic, keep='')}: {units.size(size)}" for topic, size in found.topics]
    priced = "" if price is None else f", {price * found.between / GIB:,.2f} at {price:g} a GiB"
    sentence = f"{units.size(found.between)} between racks{priced}, of {whole} in all."
    number = float(found.between) if price is None else price * found.between / GIB
    unit = "bytes" if price is None else "price"
    verdict = Verdict.UNKNOWN if found.unknown == found.bytes else Verdict.GOOD
    if verdict is Verdict.UNKNOWN:
        sentence = f"No journal says racks: {whole}, and which of it went between racks is not known."
    return Answer(QUESTION, verdict, sentence, number, unit, tuple(evidence), tuple(doubts))


def _rack(name: str | None) -> str:
    return "rack not known" if name is None else f"rack {printable(name, keep='')}"
