"""The ways as text for iptables-restore, in chains that nobody else has.

    nat    THROTTLE_GUARD        around: whoever dials the sidecar meets whom it would have dialled
           THROTTLE_GUARD_BACK   around: what leaves this host by that has an address of this host
    filter THROTTLE_GUARD        what is on the way that no longer holds is reset, so that it is dialled anew: whoever
                                 dialled, by its next packet, which may be no more than the acknowledgement of an answer
           THROTTLE_GUARD_BACK   the same of a transparent egress, which only this host's own packets may be asked about

Pure. Invariant: what is removed are these chains and the jumps to them; every text is one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .decision import Way

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .ways import Detour, Ways

CHAIN = "THROTTLE_GUARD"
BACK = "THROTTLE_GUARD_BACK"
_RESET = "-m conntrack --ctdir ORIGINAL -m tcp ! --tcp-flags RST RST -j REJECT --reject-with tcp-reset"


_JUMPS = (("INPUT", CHAIN), ("OUTPUT", CHAIN), ("OUTPUT", BACK))


class Table(NamedTuple):
    """`jumps`: the kernel's chains, and which of ours each leads to first."""

    name: str
    rules: tuple[str, ...]
    jumps: tuple[tuple[str, str], ...]


def tables(ways: Ways, way: Way | None, family: int) -> tuple[Table, Table]:
    """Return what has to be in force. `way` around: detours; through, after that: connections that went around are
    reset; None: nothing."""
    detours = [each for each in ways.detours if each.family == family]
    nat = tuple(_around(ways, detours)) if way is Way.AROUND else ()
    resets = () if way is None else tuple(_stuck(ways, detours) if way is Way.AROUND else _went_around(ways, detours))
    return (
        Table("nat", nat, (("OUTPUT", CHAIN), ("PREROUTING", CHAIN), ("POSTROUTING", BACK)) if nat else ()),
        Table("filter", resets, tuple(jump for jump in _JUMPS if any(f"-A {jump[1]} " in rule for rule in resets))),
    )


def transaction(wanted: Table, listed: str) -> str:
    """Return the change from what `iptables -S` has `listed` to what is wanted, as input for iptables-restore
    --noflush."""
    ours = (CHAIN, BACK)
    lines = listed.splitlines()
    text = [f"*{wanted.name}"]
    used = dict.fromkeys(chain for _, chain in wanted.jumps)
    text += [f":{chain} - [0:0]" for chain in used]
    text += [f"-D {line[3:]}" for line in lines if line.startswith("-A ") and line.split()[-1] in ours]
    old = [chain for chain in ours if chain not in used and f"-N {chain}" in lines]
    text += [f"-F {chain}" for chain in old] + [f"-X {chain}" for chain in old]
    text += wanted.rules
    text += [f"-I {place} 1 -p tcp -j {chain}" for place, chain in wanted.jumps]
    return "\n".join([*text, "COMMIT", ""])


def _around(ways: Ways, detours: Iterable[Detour]) -> Iterable[str]:
    for each in detours:
        yield f"-A {CHAIN} -p tcp{_here(each)} --dport {each.port} -j DNAT --to-destination {each.real}"
    if ways.redirected_to is not None:
        # What is accepted here does not reach the rules of redirect.sh, which come later and would lead it to the
        # sidecar.
        yield f"-A {CHAIN} -p tcp -m multiport --dports {ways.ports} -m addrtype ! --dst-type LOCAL -j ACCEPT"
    for each in detours:
        if each.leaves_host:
            yield f"-A {BACK} -p tcp{_translated(each)} -j MASQUERADE"


def _stuck(ways: Ways, detours: Iterable[Detour]) -> Iterable[str]:
    """Reset older connections to a sidecar that keeps its sockets open and does nothing: a follower would wait for 30
    s."""
    for each in detours:
        yield f"-A {CHAIN} -p tcp{_here(each)} --dport {each.port} -m conntrack ! --ctstate DNAT {_RESET}"
    if ways.redirected_to is not None:
        yield f"-A {BACK} -p tcp -m conntrack --ctstate DNAT --ctreplsrcport {ways.redirected_to} {_RESET}"


def _went_around(ways: Ways, detours: Iterable[Detour]) -> Iterable[str]:
    for each in detours:
        yield f"-A {CHAIN} -p tcp{_translated(each)} {_RESET}"
    if ways.redirected_to is not None:
        yield (
            f"-A {BACK} -p tcp -m multiport --dports {ways.ports} -m addrtype ! --dst-type LOCAL"
            f" -m owner ! --uid-owner {ways.sidecar_uid} -m conntrack ! --ctstate DNAT {_RESET}"
        )


def _here(each: Detour) -> str:
    return " -m addrtype --dst-type LOCAL" if each.dialled is None else f" -d {each.dialled}"


def _translated(each: Detour) -> str:
    """Match the connections that took this detour, by what the kernel tracks of them."""
    dialled = "" if each.dialled is None else f" --ctorigdst {each.dialled}"
    real = f"--ctreplsrc {each.real.host} --ctreplsrcport {each.real.port}"
    return f" -m conntrack --ctstate DNAT{dialled} --ctorigdstport {each.port} {real}"
