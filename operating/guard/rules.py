"""The ways as text for iptables-restore, in chains that no other guard has: they bear the broker's id.

    nat    THROTTLE_GUARD_101   redirects connections to the sidecar to where it would have dialled: all of them while
                                traffic is led around, otherwise only the guard's own probes
           THROTTLE_OUT_101     gives redirected connections that leave this host an address of this host as source
    filter THROTTLE_GUARD_101   resets connections that arrive on the way no longer in force, so that they are dialled
                                anew: at the peer's next packet, which may be only the acknowledgement of an answer.
                                Where route_localnet is needed, keeps loopback closed to neighbours
           THROTTLE_OUT_101     the same for packets that leave; and resets a probe that meets the sidecar although it
                                was to go around

Pure. Invariant: only these chains and the jumps to them are removed; every text is one transaction.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .ways import Detour, Ways

AROUND_MARK = 0x2057
"""The mark on packets of the guard that are to go around the sidecar, whatever is in force. Its bits have no meaning
for kube-proxy, Calico, Cilium and Tailscale."""
DIRECT_MARK = 0x2056
"""The mark on packets of the guard that no rule redirects, for comparison."""
_EITHER_MARK = f"-m mark --mark {DIRECT_MARK:#x}/0xfffffffe"
_RESET = "-j REJECT --reject-with tcp-reset"
_RESET_DIALLER = f"-m conntrack --ctdir ORIGINAL -m tcp ! --tcp-flags RST RST {_RESET}"
_ITS_OWN = f"-m mark --mark {AROUND_MARK:#x}"
_STRANGERS = f"-m mark ! --mark {DIRECT_MARK:#x}/0xfffffffe"
_CLOSE_LOOPBACK = "! -i lo -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
"""The rule that drops packets of neighbours on the link that route_localnet would let in, without a translation."""


class Rules(enum.Enum):
    """The state of a guard's rules in the kernel's packet filter."""

    NOTHING = "nothing"
    STANDBY = "standby"
    """Connections of the guard's own go around the sidecar, all others through it."""
    BACK = "back"
    """Connections of others that still go around the sidecar are reset, beside the rules of `STANDBY`."""
    AROUND = "around"


class Jump(NamedTuple):
    """A jump from a chain of the kernel's to a chain of ours."""

    hook: str
    chain: str
    match: str = ""


class Table(NamedTuple):
    """`ours`: the chains that a guard may have in it."""

    name: str
    ours: tuple[str, str]
    rules: tuple[str, ...] = ()
    jumps: tuple[Jump, ...] = ()

    @property
    def lines(self) -> int:
        """The number of lines that iptables -S has of it."""
        return len(self.rules) + len(self.jumps) + len({each.chain for each in self.jumps})


def chains(broker: int) -> tuple[str, str]:
    """Return the names of a broker's chains, of at most 28 characters, which is iptables' limit."""
    return f"THROTTLE_GUARD_{broker}", f"THROTTLE_OUT_{broker}"


def tables(ways: Ways, rules: Rules, family: int) -> tuple[Table, Table]:
    """Return nat and filter, as they have to be."""
    ours = main, out = chains(ways.broker)
    if rules is Rules.NOTHING:
        return Table("nat", ours), Table("filter", ours)
    detours = [each for each in ways.detours if each.family == family]
    led = f"-p tcp {_EITHER_MARK}"
    jumps = [Jump("OUTPUT", main, led)]
    if rules is Rules.AROUND:
        jumps = [Jump("OUTPUT", main, "-p tcp"), Jump("PREROUTING", main, "-p tcp")]
    around = [f"-A {main} {rule}" for rule in _around(ways, detours)]
    leaving = [f"-A {out} -p tcp {_translated(each)} -j MASQUERADE" for each in detours if each.leaves_host]
    coming_in, going_out = [_CLOSE_LOOPBACK] if ways.need_route_localnet(family) else [], [*_met(ways, detours)]
    if rules is Rules.AROUND:
        coming_in += [f"-p tcp {_untranslated(each)} {_RESET_DIALLER}" for each in detours]
        going_out += _redirected(ways)
    elif rules is Rules.BACK:
        coming_in += _came_in(detours)
        going_out += _went_out(ways, detours)
    return (
        Table("nat", ours, (*around, *leaving), (*jumps, *([Jump("POSTROUTING", out, "-p tcp")] if leaving else []))),
        Table(
            "filter",
            ours,
            (*(f"-A {main} {rule}" for rule in coming_in), *(f"-A {out} {rule}" for rule in going_out)),
            (
                *([Jump("INPUT", main)] if coming_in else []),
                *([Jump("OUTPUT", out, "-p tcp")] if going_out else []),
            ),
        ),
    )


def transaction(wanted: Table, listed: str) -> str:
    """Return the change from the `listed` output of `iptables -S` to the wanted rules, as input for iptables-restore
    --noflush."""
    lines = listed.splitlines()
    text = [f"*{wanted.name}"]
    used = dict.fromkeys(jump.chain for jump in wanted.jumps)
    text += [f":{chain} - [0:0]" for chain in used]
    text += [f"-D {line[3:]}" for line in lines if line.startswith("-A ") and line.split()[-1] in wanted.ours]
    old = [chain for chain in wanted.ours if chain not in used and f"-N {chain}" in lines]
    text += [f"-F {chain}" for chain in old] + [f"-X {chain}" for chain in old]
    text += wanted.rules
    text += [" ".join(filter(None, [f"-I {hook} 1", match, f"-j {chain}"])) for hook, chain, match in wanted.jumps]
    return "\n".join([*text, "COMMIT", ""])


def of_guard(ours: Iterable[str], listed: str) -> tuple[str, ...]:
    """Return the lines of `iptables -S` that are this guard's: its chains, their rules, and the jumps to them."""
    own = set(ours)
    lines = (line.split() for line in listed.splitlines())
    return tuple(" ".join(words) for words in lines if words and (words[1] in own or words[-1] in own))


def lead_around(ours: tuple[str, str], lines: Iterable[str]) -> bool:
    """Return True if these lines of `iptables -t nat -S` lead others than the guard around the sidecar."""
    words = [line.split() for line in lines]
    leads = any(each[0] == "-A" and each[-1] == ours[0] and "mark" not in each for each in words)
    return leads and any(each[:2] == ["-A", ours[0]] for each in words)


def _around(ways: Ways, detours: Iterable[Detour]) -> Iterable[str]:
    yield f"-p tcp -m mark --mark {DIRECT_MARK:#x} -j ACCEPT"
    for each in detours:
        yield f"-p tcp {_here(each)} -j DNAT --to-destination {each.real}"
    if ways.redirected_to is not None:
        # Packets accepted here do not reach the rules of redirect.sh, which come later and would lead it to the
        # sidecar.
        yield f"-p tcp -m multiport --dports {ways.ports} -m addrtype ! --dst-type LOCAL -j ACCEPT"


def _met(ways: Ways, detours: Iterable[Detour]) -> Iterable[str]:
    """Return the guard's own connections: without translation they would meet the sidecar, and prove nothing."""
    for each in detours:
        yield f"-p tcp {_untranslated(each)} {_ITS_OWN} {_RESET}"
    if ways.redirected_to is not None:
        yield f"-p tcp -m conntrack --ctstate DNAT --ctreplsrcport {ways.redirected_to} {_ITS_OWN} {_RESET}"


def _redirected(ways: Ways) -> Iterable[str]:
    if ways.redirected_to is not None:
        yield f"-p tcp -m conntrack --ctstate DNAT --ctreplsrcport {ways.redirected_to} {_RESET_DIALLER}"


def _came_in(detours: Iterable[Detour]) -> Iterable[str]:
    for each in detours:
        if not each.leaves_host:
            yield f"-p tcp {_translated(each)} {_STRANGERS} {_RESET_DIALLER}"


def _went_out(ways: Ways, detours: Iterable[Detour]) -> Iterable[str]:
    for each in detours:
        if each.leaves_host:
            yield f"-p tcp {_translated(each)} {_STRANGERS} {_RESET_DIALLER}"
    if ways.redirected_to is not None:
        yield (
            f"-p tcp -m multiport --dports {ways.ports} -m addrtype ! --dst-type LOCAL"
            f" -m owner ! --uid-owner {ways.sidecar_uid} -m conntrack ! --ctstate DNAT {_STRANGERS} {_RESET_DIALLER}"
        )


def _here(each: Detour) -> str:
    to = "-m addrtype --dst-type LOCAL" if each.dialled is None else f"-d {each.dialled}"
    return f"{to} --dport {each.port}"


def _untranslated(each: Detour) -> str:
    return f"{_here(each)} -m conntrack ! --ctstate DNAT"


def _translated(each: Detour) -> str:
    """Match the connections that took this detour, by the kernel's connection tracking."""
    dialled = "" if each.dialled is None else f" --ctorigdst {each.dialled}"
    real = f"--ctreplsrc {each.real.host} --ctreplsrcport {each.real.port}"
    return f"-m conntrack --ctstate DNAT{dialled} --ctorigdstport {each.port} {real}"
