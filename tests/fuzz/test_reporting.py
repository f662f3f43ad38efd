from __future__ import annotations

import pytest

from fuzz.campaign import Result
from fuzz.findings import Finding
from fuzz.invariant import Breach, Broken
from fuzz.reporting import as_json, from_json, summed, table

SLOW = Finding(
    "http", "none", 1, Breach(Broken.SLOW, "300 ms"), (), shown_again=False, after_frames=5, after_seconds=0.1
)  # fmt: skip
PARTS = (
    Result("http", "none", things=10, victim_fetches=7, victim_worst_ms=80, ended={"idle": 1}, findings=[SLOW]),
    Result("http", "quotas", things=5, victim_fetches=3, victim_worst_ms=90, ended={"idle": 2, "drained": 1}),
    Result("requests", "none", things=1),
)


def test_runs_are_added_up_by_what_was_thrown_and_nothing_is_hidden() -> None:
    read = from_json(as_json(PARTS[:1])) + from_json(as_json(PARTS[1:]))
    http, requests = summed(read)
    assert (http.family, http.mode, http.things, http.victim_fetches) == ("http", "2 modes", 15, 10)
    assert http.victim_worst_ms == 90
    assert http.ended == {"idle": 3, "drained": 1, "BROKEN slow": 1}
    assert (requests.mode, requests.things) == ("1 modes", 1)
    assert "BROKEN slow 1" in table([http])


@pytest.mark.parametrize("text", ["[]", '{"family": "x"}', '{"nonsense": 1, "findings": [], "ended": {}}', "{"])
def test_what_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(text)
