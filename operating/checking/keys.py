"""Checks keys, a password and a token: that files can be read, the names of certificates, and the authorities that will
refuse them.

Reads the files, needs no network. Invariant: whatever ``run`` would refuse of them is a problem here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from proxy.cluster.login import Login
from proxy.config.tls_reading import is_loopback
from proxy.errors import ConfigurationError
from proxy.http.authorization import read_answering_token
from proxy.tls.contexts import load
from proxy.tls.identity import is_trusted
from proxy.tls.legs import unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from proxy.config.settings import Address, Settings
    from proxy.tls.contexts import Loaded

Json = dict[str, Any]
SOON_DAYS = 14


def load_keys(settings: Settings) -> dict[str, Loaded]:
    """Return every leg's files by its name. Raises ConfigurationError with every problem, those of other secrets as
    well."""
    problems: list[str] = []
    found = {}
    legs = [leg for role in settings.tls for leg in role.legs]
    hanging = unanswered(legs)
    for leg in legs:
        if leg.name in hanging:
            problems += hanging[leg.name]
            continue
        try:
            found[leg.name] = load(leg)
        except ConfigurationError as error:
            problems += (f"{leg.name}: {problem}" for problem in error.problems)
    if settings.login is not None:
        problems += _problems(partial(Login.open, settings.login))
    if settings.http.token_file is not None:
        problems += _problems(partial(read_answering_token, settings.http.token_file))
    if problems:
        raise ConfigurationError(problems)
    return found


def _problems(read: Callable[[], object]) -> tuple[str, ...]:
    try:
        read()
    except ConfigurationError as error:
        return error.problems
    return ()


def keys_report(loaded: Mapping[str, Loaded]) -> Json:
    """Return the part of ``--json`` on encrypted legs."""
    return {
        name: {
            "names": [own for identity in leg.identities for own in identity.names],
            "expires": {what: datetime.fromtimestamp(when, UTC) for what, when in leg.expires.items()},
        }
        for name, leg in loaded.items()
    }


def keys_lines(report: Json) -> list[str]:
    lines = [] if not report else [""]
    for name, leg in report.items():
        ends = min(leg["expires"].values(), default=None)
        until = "" if ends is None else f", until {ends:%Y-%m-%d}"
        lines.append(
            f"{name}: TLS, {'presents ' + ', '.join(leg['names']) if leg['names'] else 'presents nothing'}{until}"
        )
    return lines


def keys_warnings(settings: Settings, loaded: Mapping[str, Loaded], now: datetime) -> list[str]:
    """Return warnings about keys that are valid and may not do, ready to print."""
    return [
        *_names(settings, loaded),
        *_untrusted(loaded),
        *_ends(loaded, now),
        *_open(settings),
        *_lent(settings),
        *_plaintext(settings),
    ]


def _names(settings: Settings, loaded: Mapping[str, Loaded]) -> Iterator[str]:
    ingress = loaded.get("ingress.listen")
    named = None if settings.ingress is None else settings.ingress.tls.server_name
    if ingress is not None and named and not any(identity.suits(named) for identity in ingress.identities):
        yield (
            f"ingress.tls.listen: no certificate has the name {named} (server_name): followers that dial this broker "
            "by it will refuse the sidecar (ssl.endpoint.identification.algorithm)"
        )
    listen = loaded.get("egress.listen")
    if settings.egress is not None and listen is not None:
        for peer in settings.egress.peers:
            if not any(identity.suits(peer.server_name) for identity in listen.identities):
                yield (
                    f"egress.tls.listen: no certificate has the name {peer.server_name} of broker {peer.broker}: the "
                    "broker beside this sidecar will refuse it (ssl.endpoint.identification.algorithm)"
                )


def _untrusted(loaded: Mapping[str, Loaded]) -> Iterator[str]:
    """Yield certificates that no truststore accepts, since brokers of a cluster usually trust the same authorities."""
    for name, leg in loaded.items():
        if leg.authorities is None or name == "http.listen":
            continue
        for identity in leg.identities:
            if not is_trusted(identity, leg.authorities):
                yield (
                    f"{name}: no authority in its own ssl.truststore.location signed {identity.place}: right only "
                    "where the other end trusts another one, else it will refuse the sidecar"
                )


def _ends(loaded: Mapping[str, Loaded], now: datetime) -> Iterator[str]:
    for name, leg in loaded.items():
        for what, when in leg.expires.items():
            days = (when - now.timestamp()) / 86_400
            if days <= 0:
                yield f"{name}: a certificate of its {what} has expired"
            elif days < SOON_DAYS:
                yield f"{name}: a certificate of its {what} expires in {days:.1f} days"


def _open(settings: Settings) -> Iterator[str]:
    for leg in (leg for role in settings.tls for leg in role.legs):
        if not leg.listens and not leg.verifies_names:
            yield f"{leg.name}: any name is accepted: ssl.endpoint.identification.algorithm is empty"


def _lent(settings: Settings) -> Iterator[str]:
    egress = settings.egress
    listens: dict[str, list[Address | None]] = {
        "ingress": [] if settings.ingress is None else [settings.ingress.listen],
        "egress": [] if egress is None else [egress.listen, *(peer.listen for peer in egress.peers)],
    }
    for name, table in (("ingress", settings.ingress), ("egress", egress)):
        outside = any(address is not None and not is_loopback(address.host) for address in listens[name])
        if table is not None and table.tls.lends_its_name and outside:
            yield (
                f"{name}.tls.listen: requires no certificate, so any client becomes the principal of "
                f"{name}.tls.upstream's certificate: right only if clients authenticate by SASL, else set "
                'ssl.client.auth = "required"'
            )


def _plaintext(settings: Settings) -> Iterator[str]:
    for name, table in (("ingress", settings.ingress), ("egress", settings.egress)):
        if table is None or not table.tls.legs:
            continue
        for side in ("listen", "upstream"):
            if getattr(table.tls, side) is None:
                yield f"{name}.tls.{side}: plaintext, as is written or because it stays on loopback"
    host = settings.http.listen.host
    http = settings.http
    if not is_loopback(host) and http.tls is None and not http.require_token:
        yield (
            f"http.listen: {host} is not loopback: any client that reaches it can read every page and reload "
            "quotas.toml; see http.tls, http.require_token, http.reload, or use a firewall"
        )
