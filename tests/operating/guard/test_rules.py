"""The text that iptables-restore gets: this guard's chains, whole, and nobody else's rule."""

from __future__ import annotations

import pytest

from operating.guard.rules import Rules, chains, lead_around, of_guard, tables, transaction
from operating.guard.ways import Detour, Ways
from proxy.config.settings import Address

INGRESS = Detour(None, 9092, Address("127.0.0.1", 19092), leaves_host=False)
PEER = Detour("127.0.102.1", 9092, Address("198.18.0.12", 9092), leaves_host=True)
OTHERS = """-P OUTPUT ACCEPT
-N DOCKER
-N THROTTLE_GUARD_102
-A OUTPUT -p tcp -j THROTTLE_GUARD_102
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER -i docker0 -j RETURN
-A THROTTLE_GUARD_102 -d 127.0.103.1/32 -p tcp -j DNAT --to-destination 198.18.0.13:9092
"""
OURS = """-N THROTTLE_GUARD_101
-A OUTPUT -p tcp -j THROTTLE_GUARD_101
-A THROTTLE_GUARD_101 -d 127.0.102.1/32 -p tcp -j DNAT --to-destination 198.18.0.12:9092
"""
_CHAIN = [
    "-A THROTTLE_GUARD_101 -p tcp -m mark --mark 0x2056 -j ACCEPT",
    "-A THROTTLE_GUARD_101 -p tcp -d 127.0.102.1 --dport 9092 -j DNAT --to-destination 198.18.0.12:9092",
    ("-A THROTTLE_GUARD_101 -p tcp -m addrtype --dst-type LOCAL --dport 9092 -j DNAT --to-destination 127.0.0.1:19092"),
    (
        "-A THROTTLE_OUT_101 -p tcp -m conntrack --ctstate DNAT --ctorigdst 127.0.102.1 --ctorigdstport 9092"
        " --ctreplsrc 198.18.0.12 --ctreplsrcport 9092 -j MASQUERADE"
    ),
]


def test_around_a_sidecar_of_both_roles() -> None:
    nat, resets = tables(Ways(101, (PEER, INGRESS)), Rules.AROUND, 4)
    assert transaction(nat, OTHERS).splitlines() == [
        "*nat",
        ":THROTTLE_GUARD_101 - [0:0]",
        ":THROTTLE_OUT_101 - [0:0]",
        *_CHAIN,
        "-I OUTPUT 1 -p tcp -j THROTTLE_GUARD_101",
        "-I PREROUTING 1 -p tcp -j THROTTLE_GUARD_101",
        "-I POSTROUTING 1 -p tcp -j THROTTLE_OUT_101",
        "COMMIT",
    ]
    assert all("! --ctstate" in rule for rule in resets.rules)


@pytest.mark.parametrize("rules", [Rules.STANDBY, Rules.BACK])
def test_otherwise_the_same_rules_lead_the_guard_alone(rules: Rules) -> None:
    nat, _ = tables(Ways(101, (PEER, INGRESS)), rules, 4)
    assert list(nat.rules) == _CHAIN
    assert transaction(nat, OTHERS).splitlines()[-3:] == [
        "-I OUTPUT 1 -p tcp -m mark --mark 0x2056/0xfffffffe -j THROTTLE_GUARD_101",
        "-I POSTROUTING 1 -p tcp -j THROTTLE_OUT_101",
        "COMMIT",
    ]


def test_on_the_way_back_who_went_around_is_reset_and_the_guard_is_not() -> None:
    standby, back = (tables(Ways(101, (PEER, INGRESS)), rules, 4)[1] for rules in (Rules.STANDBY, Rules.BACK))
    added = [rule for rule in back.rules if rule not in standby.rules]
    assert len(added) == 2
    assert all("--ctstate DNAT" in rule and "! --mark 0x2056/0xfffffffe" in rule for rule in added)


@pytest.mark.parametrize("rules", Rules)
def test_loopback_stays_closed_to_neighbours_whatever_is_in_force(rules: Rules) -> None:
    closes = "-A THROTTLE_GUARD_101 ! -i lo -d 127.0.0.0/8"
    for family, detours in ((4, (PEER,)), (4, (INGRESS,)), (6, (INGRESS,))):
        _, found = tables(Ways(101, detours), rules, family)
        needed = family == 4 and rules is not Rules.NOTHING
        assert any(rule.startswith(closes) for rule in found.rules) == needed
        # In OUTPUT, `! -i lo` would be true of everything.
        assert all(jump.hook == "INPUT" for jump in found.jumps if jump.chain == "THROTTLE_GUARD_101")


def test_at_the_end_only_our_rules_go() -> None:
    for found in tables(Ways(101, (PEER, INGRESS)), Rules.NOTHING, 4):
        assert transaction(found, OTHERS + OURS).splitlines() == [
            f"*{found.name}", "-D OUTPUT -p tcp -j THROTTLE_GUARD_101", "-F THROTTLE_GUARD_101",
            "-X THROTTLE_GUARD_101", "COMMIT",
        ]  # fmt: skip
        assert transaction(found, OTHERS) == f"*{found.name}\nCOMMIT\n"


def test_what_is_ours_in_a_list_is_known() -> None:
    ours = chains(101)
    found = of_guard(ours, OTHERS + OURS)
    assert list(found) == OURS.splitlines()
    assert lead_around(ours, found)
    assert not lead_around(ours, of_guard(ours, OTHERS))
    assert not lead_around(ours, found[:2])  # somebody emptied the chain
    its_own = f"-A OUTPUT -p tcp -m mark --mark 0x2056/0xfffffffe -j {ours[0]}"
    assert not lead_around(ours, (found[0], its_own, found[2]))


def test_the_longest_names_are_short_enough_for_iptables() -> None:
    assert max(map(len, chains(2**31 - 1))) <= 28


def test_what_is_redirected_is_let_go_and_reset_later() -> None:
    ways = Ways(101, (), redirected_to=15001, ports="9092,9094", sidecar_uid=65532)
    nat, stuck = tables(ways, Rules.AROUND, 4)
    assert nat.rules[1:] == (
        "-A THROTTLE_GUARD_101 -p tcp -m multiport --dports 9092,9094 -m addrtype ! --dst-type LOCAL -j ACCEPT",
    )
    assert all("--ctreplsrcport 15001" in rule for rule in stuck.rules)
    _, went = tables(ways, Rules.BACK, 4)
    assert "! --uid-owner 65532" in went.rules[-1]


def test_each_family_has_its_own_ways() -> None:
    six = Detour("fd00::1", 9092, Address("fd00::2", 9092), leaves_host=True)
    nat4, _ = tables(Ways(101, (PEER, six)), Rules.AROUND, 4)
    nat6, _ = tables(Ways(101, (PEER, six)), Rules.AROUND, 6)
    assert len(nat4.rules) == len(nat6.rules) == 3
    assert "[fd00::2]:9092" in nat6.rules[1]
