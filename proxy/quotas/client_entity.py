"""The entities of client quotas, as Kafka has them: a user, a client id, or a client id of a user.

    users.alice.clients.etl          the client id etl of the user alice
    users.alice                      the user alice, with whatever client id
    users.default.clients.default    each other client id of each other user
    clients.etl                      the client id etl, of whatever user

Both names may be globs, which Kafka does not have. `level` is Kafka's precedence of the eight kinds of entity. Pure.
Invariant: `parse_place` reads what `str` writes, for every name that quotas.toml may have.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .names import DEFAULT, GLOB_WILDCARD, glob_of, specificity

ANONYMOUS = "ANONYMOUS"
"""The user of a connection without authentication (`KafkaPrincipal.ANONYMOUS`)."""
USERS, CLIENTS = "users", "clients"
_CLIENTS_OF = f".{CLIENTS}."
_NO_USERS = {
    re.compile(r"User:"): "the name without the type of the principal",
    re.compile(r"/[A-Za-z.]+="): "the subject as RFC 2253 has it, the last part first (CN=etl,OU=data)",
    re.compile(r"[A-Za-z0-9.]+=.*,\s"): "the subject of a certificate without blanks after its commas",
}
"""Names of users as they are often written by mistake, and the expected ones."""


class ClientEntity(NamedTuple):
    """The entity of a section: names, globs and ``default``; or that of a connection: names and the globs they match.
    None: the entity does not depend on it."""

    user: str | None
    client: str | None

    def __str__(self) -> str:
        """Return the place as overrides have it: ``users.alice.clients.etl``."""
        if self.user is None:
            return f"{CLIENTS}.{self.client}"
        user = f'"{self.user}"' if _CLIENTS_OF in f".{self.user}." else self.user
        return f"{USERS}.{user}" + ("" if self.client is None else f"{_CLIENTS_OF}{self.client}")

    @property
    def label(self) -> str:
        """The name in metrics, pages and reports: the bare client id, unless it reads like a user, or the place."""
        is_client = self.client is not None and self.user is None and not self.client.startswith(f"{USERS}.")
        return self.client if is_client and self.client is not None else str(self)

    @property
    def is_named(self) -> bool:
        """A section of this entity has one budget; a ``default`` has one for each name that shows itself."""
        return DEFAULT not in self

    @property
    def doubt(self) -> str | None:
        """A warning about a user's name as no broker has it; None: there is none."""
        user = self.user or ""
        for shape, instead in _NO_USERS.items():
            if shape.match(user):
                return f"no user has this name: expected {instead}, found {user}"
        return None

    @property
    def level(self) -> tuple[int, int]:
        """The rank among Kafka's eight kinds of entity: names go before defaults, users before clients."""
        return _rank(self.user), _rank(self.client)

    @property
    def specificity(self) -> tuple[object, ...]:
        """The sort key within a level: an exact name goes before globs, a longer glob before a shorter one."""
        return tuple((GLOB_WILDCARD.search(part or "") is not None, specificity(part or "")) for part in self)

    def matches(self, user: str | None, client: str) -> bool:
        """Return True if a connection's user (None: not known) and client id are of this section's entity. As in Kafka,
        the empty client id, which stands for none, is not of a ``default``."""
        return _matches(self.user, user) and _matches(self.client, client)

    def of(self, user: str | None, client: str) -> ClientEntity:
        """Return the entity that shares a budget, for a connection that this section's entity matches. As in Kafka each
        name under a default has a budget of its own; the names that match a glob share one."""
        return ClientEntity(_shared(self.user, user), _shared(self.client, client))

    def counts_for(self, place: ClientEntity) -> bool:
        """Return True if this section says something of a place where `place` says nothing."""
        return all(
            mine in (None, its) or (its is not None and (mine == DEFAULT or (_is_name(its) and _matches(mine, its))))
            for mine, its in zip(self, place, strict=True)
        )


def parse_place(place: str) -> ClientEntity | None:
    """Return the entity of a place: ``clients.etl``, ``users.alice``, ``users.alice.clients.etl``; None if it is of
    none. A user whose name contains ``.clients.`` stands in quotes."""
    kind, _, name = place.partition(".")
    user: str | None = None
    client: str | None = None
    if kind == CLIENTS:
        client = name
    elif kind == USERS and name.startswith('"'):
        user, _, rest = name[1:].partition('"')
        if rest:
            client = rest.removeprefix(_CLIENTS_OF)
            if client == rest:
                return None
    elif kind == USERS:
        user, found, rest = name.partition(_CLIENTS_OF)
        client = rest if found else None
    return None if "" in (user, client) or user is client is None else ClientEntity(user, client)


def _rank(name: str | None) -> int:
    return 2 if name is None else int(name == DEFAULT)


def _matches(selector: str | None, name: str | None) -> bool:
    if selector is None:
        return True
    if selector == DEFAULT:
        return bool(name)
    return name is not None and (selector == name or glob_of(selector).matches(name))


def _shared(selector: str | None, name: str | None) -> str | None:
    return name if selector == DEFAULT else selector


def _is_name(text: str) -> bool:
    return text != DEFAULT and GLOB_WILDCARD.search(text) is None
