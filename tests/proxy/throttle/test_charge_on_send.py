"""Records that begin to go on count at once under `kip73`, and once."""

from __future__ import annotations

import pytest

from admission.budget import Kip73Budget
from proxy.config.settings import Policy
from proxy.roles import Role
from proxy.throttle.decision import Forward
from tests.proxy.conversation import ENTRY_BYTES, MIB, behind, response_entry

KEY = ("t", 0)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    ("enforce", "used_up", "offset"),
    [
        pytest.param(True, 0, 0, id="behind, within quota"),
        pytest.param(True, 0, 1_000_000, id="in sync, within quota"),
        pytest.param(True, 50 * MIB, 1_000_000, id="in sync, over quota"),
        pytest.param(False, 0, 0, id="observed behind, within quota"),
        pytest.param(False, 50 * MIB, 0, id="observed behind, over quota"),
        pytest.param(False, 50 * MIB, 1_000_000, id="observed in sync, over quota"),
    ],
)
@pytest.mark.parametrize("record_bytes", [0, 5000, 2 * MIB])
@pytest.mark.parametrize("error", [0, 6])
def test_kip73_counts_when_records_begin_what_it_would_count_when_they_have_gone(
    role: Role, enforce: bool, used_up: int, offset: int, record_bytes: int, error: int
) -> None:
    """And counts it once: in observe mode neither what enforcing would have left out nor more than was granted."""

    def measured(*, begins: bool) -> tuple[float, float, int]:
        conversation = behind(role=role, policy=Policy.KIP73, enforce=enforce)
        conversation.offsets[KEY] = offset
        conversation.throttle.account(
            conversation.link.claim.path, 0.0, 0, 0, reserved=0, granted=0, ungranted=used_up, observed=0
        )
        decision = conversation.ask()
        assert isinstance(decision, Forward)
        pending = decision.pending
        assert pending is not None
        budget = conversation.throttle.budget
        assert isinstance(budget, Kip73Budget)
        entry = response_entry(*KEY, record_bytes, error=error)
        if begins:
            pending.charge_on_send([entry], 0.0)
        begun = budget._charged.measure(0.0)
        pending.forwards([entry], b"", 0, 0.0)
        left = pending.path.trunk[0].charged_early_bytes
        pending.finish(0.0)
        return begun, budget._charged.measure(0.0), left

    _, expected, _ = measured(begins=False)
    assert measured(begins=True) == (expected, expected, 0)


def test_what_was_begun_and_is_asked_for_no_more_does_not_pay_for_the_next_answer() -> None:
    """A follower that sends its next request before the answer has gone, without the partition: its records had begun,
    and are not settled. They paid for as many bytes of a later answer, however late."""
    conversation = behind(2, policy=Policy.KIP73)
    first = conversation.ask()
    assert isinstance(first, Forward)
    assert first.pending is not None
    first.pending.charge_on_send([response_entry("t", 0, MIB)], 0.0)
    del conversation.offsets["t", 0]
    second = conversation.ask()
    first.pending.forwards([response_entry("t", 0, MIB)], b"", 0, 0.0)
    assert first.pending.path.trunk[0].charged_early_bytes == MIB + ENTRY_BYTES
    first.pending.finish(0.0)
    conversation.answer(second, {("t", 1): MIB})
    budget = conversation.throttle.budget
    assert isinstance(budget, Kip73Budget)
    assert budget._charged.measure(0.0) == 2 * (MIB + ENTRY_BYTES)
