"""Has every sidecar concerned have the new quotas in force, and says who has and who has not.

Those whose file was written take it within 250 ms and are only asked. Those that mount a ConfigMap would wait for their
kubelet, a minute or so: with a token or a certificate they are given the quotas over HTTP (PUT /quotas). All at once,
each with its own time-out. Blocking. Invariant: who could not be reached is named.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError, UnreachableError
from proxy.files.reading import read_bytes
from proxy.quotas import hash_of

from ..asking import send, shows_certificate, token_in
from .confirming import Confirmation, confirm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..editing.changing import QuotaChange
    from ..fleet.changing import Planned, Rewritten
    from ..fleet.file import Member

_MOST_AT_ONCE = 64
SUPERSEDES = "throttle-supersedes"
"""The request's header with hashes of quotas that are older than those it brings; a mount may show them yet."""


def tell(planned: Sequence[Planned[QuotaChange | Rewritten]]) -> list[Confirmation]:
    """One of each member, in the order of the fleet's places."""
    asked = [(member, each) for each in planned for member in each.place.members]
    if not asked:
        return []
    with ThreadPoolExecutor(min(len(asked), _MOST_AT_ONCE)) as threads:
        return list(threads.map(lambda one: _tell(*one), asked))


def _tell(member: Member, planned: Planned[QuotaChange | Rewritten]) -> Confirmation:
    content = planned.change.after
    if member.configmap is not None and planned.change.changes_something:
        refusal = _put(member, planned)
        if refusal is not None:
            return Confirmation(member.url, member.broker, None, f"broker {member.broker} ({member.url}): {refusal}")
    (confirmed,) = confirm([member.url], content)
    if confirmed.broker is not None and confirmed.broker != member.broker:
        line = f"{member.url}: is the sidecar of broker {confirmed.broker}, not of {member.broker}"
        return Confirmation(member.url, member.broker, in_force=False, line=line)
    return confirmed._replace(broker=member.broker)


def _put(member: Member, planned: Planned[QuotaChange | Rewritten]) -> str | None:
    """None if it went well; else what to know: the ConfigMap is right all the same."""
    later = "its kubelet brings the ConfigMap within a minute or so"
    if member.token_file is None and not shows_certificate():
        return f"not told, {later}; with token_file in fleet.toml it would hold at once"
    try:
        put_quotas(member.url, token_of(member), planned.change.after, supersedes=[hash_of(planned.change.before)])
    except (UnreachableError, ConfigurationError) as error:
        return f"did not take it over HTTP, {later}: {error}"
    return None


def token_of(member: Member) -> str:
    """Raises ConfigurationError."""
    file = member.token_file
    return "" if file is None else token_in(read_bytes(file, takes_pipes=True), whose=str(file))


def put_quotas(url: str, token: str, content: bytes, *, supersedes: Sequence[str] = ()) -> bytes:
    """Give a sidecar new quotas in place of those it has now; return its answer. Raises UnreachableError."""
    proof = {"Authorization": f"Bearer {token}"} if token else {}
    _, headers = send(url, "/quotas", headers=proof)
    older = {SUPERSEDES: ", ".join(supersedes)} if supersedes else {}
    said, _ = send(
        url, "/quotas", method="PUT", body=content, headers={**proof, "If-Match": headers.get("ETag", ""), **older}
    )
    return said
