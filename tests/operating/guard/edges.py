"""A guard whose packet filter, questions and proofs are told to it; run as a process, since signals end it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from operating.guard.decision import Answer
from operating.guard.guarding import Edges, Guarding
from operating.guard.probing import Proof
from operating.guard.rules import Rules
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FakeFilter:
    """Tells what is put into it, and takes everything but what `refuses` says: for each change how often it is
    refused, and for a partly taken one that it leads around all the same."""

    def __init__(self, **refuses: list[str]) -> None:
        self._refuses = {Rules[name.upper()]: said for name, said in refuses.items()}
        self.tried: list[Rules] = []
        self.leads_around = False
        self.gone = False

    def put(self, rules: Rules) -> None:
        self.tried.append(rules)
        refused = self._refuses.get(rules)
        said = refused.pop(0) if refused else "taken"
        if said != "taken":
            self.leads_around |= said == "partly"
            raise ConfigurationError("iptables: it said: no")
        sys.stdout.write(f"put {rules.name}\n")
        sys.stdout.flush()
        self.leads_around = rules is Rules.AROUND
        self.gone = False

    def intact(self) -> bool:
        return not self.gone


def guard(
    packet_filter: FakeFilter,
    *,
    ask: Callable[[], Answer] = lambda: Answer.NONE,
    prove: Callable[[], Proof] = lambda: Proof(1),
    reset: Callable[[], int] = lambda: 0,
    textfile: Path | None = None,
) -> Guarding:
    """Of broker 101; after half a second without an answer it leads around."""
    edges = Edges(packet_filter, ask, prove, reset)
    return Guarding(edges, asked="", after_seconds=0.5, broker=101, textfile=textfile)
