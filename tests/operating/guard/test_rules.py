"""The text that iptables-restore gets: our chains, whole, and nobody else's rule."""

from __future__ import annotations

import pytest

from operating.guard.decision import Way
from operating.guard.rules import tables, transaction
from operating.guard.ways import Detour, Ways
from proxy.config.settings import Address

INGRESS = Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False)
PEER = Detour("127.0.102.1", 9092, Address("198.18.0.12", 9092), leaves_host=True)
OTHERS = """-P OUTPUT ACCEPT
-N DOCKER
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER -i docker0 -j RETURN
"""
OURS = """-N THROTTLE_GUARD
-A OUTPUT -p tcp -j THROTTLE_GUARD
-A THROTTLE_GUARD -d 127.0.102.1/32 -p tcp -j DNAT --to-destination 198.18.0.12:9092
"""


def test_around_a_sidecar_of_both_roles() -> None:
    nat, resets = tables(Ways((PEER, INGRESS)), Way.AROUND, 4)
    assert transaction(nat, OTHERS).splitlines() == [
        "*nat",
        ":THROTTLE_GUARD - [0:0]",
        ":THROTTLE_GUARD_BACK - [0:0]",
        "-A THROTTLE_GUARD -p tcp -d 127.0.102.1 --dport 9092 -j DNAT --to-destination 198.18.0.12:9092",
        "-A THROTTLE_GUARD -p tcp -m addrtype --dst-type LOCAL --dport 9092 -j DNAT --to-destination 127.0.0.1:19092",
        (
            "-A THROTTLE_GUARD_BACK -p tcp -m conntrack --ctstate DNAT --ctorigdst 127.0.102.1 --ctorigdstport 9092"
            " --ctreplsrc 198.18.0.12 --ctreplsrcport 9092 -j MASQUERADE"
        ),
        "-I OUTPUT 1 -p tcp -j THROTTLE_GUARD",
        "-I PREROUTING 1 -p tcp -j THROTTLE_GUARD",
        "-I POSTROUTING 1 -p tcp -j THROTTLE_GUARD_BACK",
        "COMMIT",
    ]
    assert all("! --ctstate DNAT" in rule for rule in resets.rules)


@pytest.mark.parametrize("way", [None, Way.THROUGH])
def test_on_the_way_back_only_our_rules_go(way: Way | None) -> None:
    nat, resets = tables(Ways((PEER, INGRESS)), way, 4)
    assert transaction(nat, OTHERS + OURS).splitlines() == [
        "*nat", "-D OUTPUT -p tcp -j THROTTLE_GUARD", "-F THROTTLE_GUARD", "-X THROTTLE_GUARD", "COMMIT",
    ]  # fmt: skip
    assert len(resets.rules) == (0 if way is None else 2)
    assert transaction(nat, OTHERS) == "*nat\nCOMMIT\n"


def test_what_is_redirected_is_let_go_and_reset_later() -> None:
    ways = Ways((), redirected_to=15001, ports="9092,9094", sidecar_uid=65532)
    nat, stuck = tables(ways, Way.AROUND, 4)
    assert nat.rules == (
        "-A THROTTLE_GUARD -p tcp -m multiport --dports 9092,9094 -m addrtype ! --dst-type LOCAL -j ACCEPT",
    )
    assert "--ctreplsrcport 15001" in stuck.rules[0]
    _, went = tables(ways, Way.THROUGH, 4)
    assert "! --uid-owner 65532" in went.rules[0]


def test_each_family_has_its_own_ways() -> None:
    six = Detour("fd00::1", 9092, Address("fd00::2", 9092), leaves_host=True)
    nat4, _ = tables(Ways((PEER, six)), Way.AROUND, 4)
    nat6, _ = tables(Ways((PEER, six)), Way.AROUND, 6)
    assert len(nat4.rules) == len(nat6.rules) == 2
    assert "[fd00::2]:9092" in nat6.rules[0]
