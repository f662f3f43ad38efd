"""All ways are measured in turns: what a minute of the machine is like is nobody's alone."""

from __future__ import annotations

from functools import partial

from benchmarks.fleet_changes import Timing, in_turns


def test_every_rate_goes_by_every_way_and_the_first_is_not_counted() -> None:
    order: list[tuple[str, int]] = []

    def timed(name: str, rate: int) -> Timing:
        order.append((name, rate))
        return Timing(float(rate), 0.0)

    found = in_turns({name: partial(timed, name) for name in ("files", "PUT")}, range(7, 10))
    assert order == [("files", 7), ("PUT", 7), ("PUT", 8), ("files", 8), ("files", 9), ("PUT", 9)]
    assert found == {name: [Timing(8.0, 0.0), Timing(9.0, 0.0)] for name in ("files", "PUT")}
