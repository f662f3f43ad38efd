"""``fleet init``: writes fleet.toml, from a cluster's brokers or from the pods of a label selector.

Every sidecar that is found is asked which broker it is beside. Invariant: nothing is written if one of them does not
say so; an existing file is never replaced.
"""

from __future__ import annotations

import json
import subprocess
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proxy.config.settings import Address
from proxy.errors import ConfigurationError
from proxy.files.reading import is_there, read_bytes

from ..asking import token_in
from ..fleet.members import Member, at_all, get
from ..moves.options import cluster_options, connected
from ..terminal import say
from .options import FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

_KUBECTL_SECONDS = 30.0


@click.group("fleet", short_help="Write the list of all sidecars, fleet.toml.")
def command() -> None:
    """Write fleet.toml, which lists the sidecars for `--fleet`.

    \b
    Example:
      throttle-sidecar fleet init --bootstrap kafka-101:9092 --token-file token
    """


@command.command("init")
@cluster_options
@click.option("--selector", metavar="LABELS", help="Ask kubectl for these pods, instead of --bootstrap.")
@click.option("--namespace", metavar="NAME", help="The pods' namespace.")
@click.option("--port", type=click.IntRange(1, 65535), default=9404, show_default=True, help="The sidecars' HTTP port.")
@click.option("--token-file", type=FILE, metavar="FILE", help="The sidecars' token for changes, relative to --out.")
@click.option(
    "--out", type=FILE, default=Path("fleet.toml"), show_default=True, metavar="FILE", help="The file to write."
)
def init(
    *, selector: str | None, namespace: str | None, port: int, token_file: Path | None, out: Path, **reach: Any
) -> None:
    """Find all sidecars, ask each for its broker, and write fleet.toml.

    Each broker's host, or each pod's address, is asked at --port. Exit status 1, and nothing is written, if one of them
    does not answer.

    \b
    Examples:
      throttle-sidecar fleet init --bootstrap kafka-101:9092 --token-file token
      throttle-sidecar fleet init --selector strimzi.io/kind=Kafka --namespace kafka
    """
    if bool(reach["bootstrap"]) == (selector is not None):
        raise click.UsageError("expected --bootstrap or --selector")
    if is_there(out):
        raise ConfigurationError(f"{out}: is there already: expected a new file (--out)")
    if token_file is not None:
        path = out.parent / token_file
        token_in(read_bytes(path), whose=f"--token-file: {path}")
    hosts = _pods(selector, namespace) if selector is not None else _brokers(reach)
    found = at_all([Member(f"http://{Address(host, port)}") for host in hosts], partial(get, page="/throttle"))
    silent = [reply.error or f"{reply.member.url}: it does not say its broker" for reply in found if _id(reply) is None]
    if silent or not found:
        raise ConfigurationError(
            [*silent, f"{out}: not written"] if silent else f"no broker or pod: {out} is not written"
        )
    token = "" if token_file is None else f"token_file = {json.dumps(str(token_file))}\n"
    tables = sorted((broker, reply.member.url) for reply in found if (broker := _id(reply)) is not None)
    for (broker, one), (same, other) in pairwise(tables):
        if broker == same:
            raise ConfigurationError([f"{one}, {other}: are the sidecar of broker {broker}", f"{out}: not written"])
    text = token + "".join(f"[[sidecars]]\nbroker = {broker}\nurl = {json.dumps(url)}\n" for broker, url in tables)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(f"{out}: cannot be written: {error.strerror or error}") from error
    say(f"{out}: {len(tables)} sidecars")


def _id(reply: Any) -> int | None:
    return None if reply.error is not None else reply.broker


def _brokers(reach: dict[str, Any]) -> list[str]:
    with connected(**reach) as cluster:
        return cluster.hosts()


def _pods(selector: str, namespace: str | None) -> list[str]:
    where: Sequence[str] = () if namespace is None else ("--namespace", namespace)
    asking = ["kubectl", "get", "pods", "--selector", selector, *where, "--output", "json"]
    try:
        done = subprocess.run(asking, capture_output=True, timeout=_KUBECTL_SECONDS, check=False)
        if done.returncode != 0:
            raise ConfigurationError(f"kubectl: {done.stderr.decode('utf-8', 'replace').strip()}")
        items = json.loads(done.stdout)["items"]
        return [str(item["status"]["podIP"]) for item in items]
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"kubectl: no answer within {_KUBECTL_SECONDS:g} s") from error
    except OSError as error:
        raise ConfigurationError(f"kubectl: cannot be run: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"kubectl: expected pods with addresses as JSON: {error}") from error
