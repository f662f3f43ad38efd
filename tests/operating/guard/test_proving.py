"""What connections prove of the ways around, and what they do not."""

from __future__ import annotations

import socket
import threading

import pytest

from operating.guard.proving import Proof, Prover, Target, dial, prove, targets
from operating.guard.rules import AROUND_MARK, DIRECT_MARK
from operating.guard.ways import Detour, Ways
from proxy.config.settings import Address

NEAR, FAR = Address("127.0.102.1", 9092), Address("198.18.0.12", 9092)
WAY = Target(NEAR, FAR)


@pytest.mark.parametrize(
    ("around", "directly", "expected"),
    [
        ([""], "", Proof(1)),
        (["lost", ""], "", Proof(1)),
        (["refused", "refused"], "refused", Proof(0, (f"{WAY}: refused",))),
        (["no answer", "no answer"], "", Proof(0, (), (f"{WAY}: no answer",))),
    ],
    ids=["made", "made at the second try", "the leader is down", "the leader is up, and the way leads nowhere"],
)
def test_a_way_is_blocked_only_if_its_end_answers_otherwise(around: list[str], directly: str, expected: Proof) -> None:
    dialled = []

    def fake(address: Address, mark: int) -> str:
        dialled.append((address, mark))
        return around.pop(0) if mark == AROUND_MARK else directly

    assert prove([WAY], fake) == expected
    assert {mark: address for address, mark in dialled} in (
        {AROUND_MARK: NEAR},
        {AROUND_MARK: NEAR, DIRECT_MARK: FAR},
    )


def test_many_ways_are_tried_at_once() -> None:
    """A cluster of which half is down would otherwise take minutes."""
    together = threading.Barrier(8, timeout=20)
    ways = [Target(Address("127.0.0.1", port), FAR) for port in range(1, 9)]

    def once_all_dial(*_: object) -> str:
        together.wait()
        return ""

    assert prove(ways, once_all_dial) == Proof(8)


def test_what_began_before_the_rules_changed_proves_nothing() -> None:
    first, proofs = threading.Event(), [Proof(1), Proof(2)]
    taken = iter(proofs)

    def next_proof() -> Proof:
        found = next(taken)
        if found is proofs[0]:
            first.wait(20)
        return found

    prover = Prover(next_proof)
    prover.start()
    prover.start()
    first.set()
    found = None
    while found is None:
        found = prover.take()
    assert found == proofs[1]
    assert prover.take() is None


def test_whom_to_dial() -> None:
    ways = Ways(
        101,
        (
            Detour("127.0.102.1", 9092, FAR, leaves_host=True),
            Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False),
        ),
        redirected_to=15001,
        leaders=(FAR,),
    )
    assert targets(ways) == (WAY, Target(Address("127.0.0.1", 9092), Address("127.0.0.1", 19092)), Target(FAR, FAR))


def test_a_dial_says_why_it_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = Address("127.0.0.1", listener.getsockname()[1])
        assert dial(at, AROUND_MARK) == ""
    assert dial(at, AROUND_MARK) == "Connection refused"
