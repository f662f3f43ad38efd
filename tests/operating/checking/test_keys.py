"""`check` reads every key, and says who will not take them."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lab.brokers.authority import Authority
from operating.cli import cli

if TYPE_CHECKING:
    from pathlib import Path

HEAD = '[broker]\nid = 101\n[quotas]\nfile = "quotas.toml"\n'
INGRESS = HEAD + '[ingress]\nlisten = "0.0.0.0:9092"\nupstream = "127.0.0.1:19092"\n'
EGRESS = (
    HEAD + '[egress]\n[[egress.peers]]\nbroker = 102\nlisten = "127.0.0.2:9092"\nupstream = "kafka-102:9092"\n'
    '[[egress.peers]]\nbroker = 103\nlisten = "127.0.0.3:9092"\nupstream = "10.0.0.3:9092"\nserver_name = "kafka-103"\n'
    '[egress.tls.listen]\nssl.keystore.location = "egress.pem"\n'
    '[egress.tls.upstream]\nssl.truststore.location = "ca.pem"\n'
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "quotas.toml").write_text("# none\n")
    return Authority(tmp_path)


def check(home: Path, config: str, *options: str) -> tuple[int, str]:
    (home / "proxy.toml").write_text(config)
    done = CliRunner().invoke(cli, ["check", "--config", str(home / "proxy.toml"), *options])
    return done.exit_code, done.output


def test_it_says_whose_names_are_presented_until_when(tmp_path: Path, authority: Authority) -> None:
    authority.issue("own.pem", ["kafka-101", "127.0.0.1"])
    status, said = check(tmp_path, INGRESS + '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n')
    assert status == 0
    assert "ingress.listen: TLS, presents kafka-101, 127.0.0.1, until 20" in said
    assert "ingress.tls.upstream: plaintext, as is written or because it stays on loopback" in said


def test_peers_whom_the_certificate_does_not_do_for_are_named(tmp_path: Path, authority: Authority) -> None:
    authority.issue("egress.pem", ["kafka-102"])
    status, said = check(tmp_path, EGRESS)
    assert status == 0
    assert "no certificate has the name kafka-103 of broker 103" in said
    assert "kafka-102 of broker" not in said
    authority.issue("egress.pem", ["kafka-102", "kafka-103"])
    assert "no certificate has" not in check(tmp_path, EGRESS)[1]


@pytest.mark.parametrize(("names", "warns"), [(["kafka-1"], True), (["kafka-101"], False), (["*.kafka"], True)])
def test_followers_that_the_certificate_does_not_do_for_are_told(
    tmp_path: Path, authority: Authority, names: list[str], *, warns: bool
) -> None:
    """By server_name it is known how followers dial this broker."""
    authority.issue("own.pem", names)
    keys = 'ssl.keystore.location = "own.pem"\nssl.truststore.location = "ca.pem"\n'
    status, said = check(
        tmp_path,
        f'{INGRESS}[ingress.tls.listen]\n{keys}ssl.client.auth = "required"\n'
        f'[ingress.tls.upstream]\n{keys}server_name = "kafka-101"\n',
    )
    assert status == 0
    assert ("ingress.tls.listen: no certificate has the name kafka-101 (server_name)" in said) is warns


@pytest.mark.parametrize("other", ["", "listen", "upstream"])
def test_a_keystore_that_its_own_truststore_does_not_trust_is_told(
    tmp_path: Path, authority: Authority, other: str
) -> None:
    authority.issue("own.pem", ["kafka-101"])
    Authority(tmp_path / "other", name="other")
    legs = ""
    for leg in ("listen", "upstream"):
        trusted = "other/ca.pem" if leg == other else "ca.pem"
        legs += f'[ingress.tls.{leg}]\nssl.keystore.location = "own.pem"\nssl.truststore.location = "{trusted}"\n' + (
            'ssl.client.auth = "required"\n' if leg == "listen" else 'server_name = "kafka-101"\n'
        )
    status, said = check(tmp_path, INGRESS + legs)
    assert status == 0
    for leg in ("listen", "upstream"):
        told = f"ingress.{leg}: no authority in its own ssl.truststore.location signed {tmp_path / 'own.pem'}"
        assert (told in said) is (leg == other)


@pytest.mark.parametrize(
    ("listen", "auth", "warns"),
    [("0.0.0.0", "none", True), ("0.0.0.0", "required", False), ("127.0.0.1", "none", False)],
)
def test_who_lends_its_principal_is_told(
    tmp_path: Path, authority: Authority, listen: str, auth: str, *, warns: bool
) -> None:
    authority.issue("own.pem", ["kafka-101", "127.0.0.1"])
    keys = 'ssl.keystore.location = "own.pem"\nssl.truststore.location = "ca.pem"\n'
    tables = f'[ingress.tls.listen]\n{keys}ssl.client.auth = "{auth}"\n[ingress.tls.upstream]\n{keys}'
    status, said = check(tmp_path, INGRESS.replace("0.0.0.0", listen) + tables)
    assert status == 0
    assert ("ingress.tls.listen: requires no certificate" in said) is warns


def test_as_json(tmp_path: Path, authority: Authority) -> None:
    authority.issue("egress.pem", ["*.kafka"])
    status, said = check(tmp_path, EGRESS, "--json")
    report = json.loads(said)
    assert status == 0
    assert report["tls"]["egress.listen"]["names"] == ["*.kafka"]
    assert set(report["tls"]["egress.upstream"]["expires"]) == {"truststore"}


@pytest.mark.parametrize(
    ("days", "said"), [(10, "its keystore expires in 10.0 days"), (-1, "its keystore has expired")]
)
def test_what_ends_soon_is_a_warning(tmp_path: Path, authority: Authority, days: int, said: str) -> None:
    ends = dt.datetime.now(dt.UTC) + dt.timedelta(days=days, minutes=1)
    authority.issue("own.pem", ["kafka-101"], expires=ends)
    tables = '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n'
    assert said in check(tmp_path, INGRESS + tables)[1]


def test_names_that_are_not_verified_are_a_warning(tmp_path: Path, authority: Authority) -> None:
    authority.issue("egress.pem", ["kafka-102", "kafka-103"])
    _, said = check(tmp_path, EGRESS + 'ssl.endpoint.identification.algorithm = ""\n')
    assert "egress.upstream: any name is accepted" in said


def test_whoever_reaches_http_reads_everything(tmp_path: Path, authority: Authority) -> None:
    assert authority.certificate.exists()
    _, said = check(tmp_path, INGRESS + '[http]\nlisten = "0.0.0.0:9404"\n')
    assert "http.listen: 0.0.0.0 is not loopback" in said
    assert "http.listen" not in check(tmp_path, INGRESS)[1]


def test_what_run_would_refuse_is_a_problem(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "own.pem").write_text("nothing")
    config = INGRESS + (
        '[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n'
        '[names]\nsasl.mechanism = "PLAIN"\nsasl.username = "me"\nsasl.password.file = "none"\n'
    )
    assert authority.certificate.exists()
    status, said = check(tmp_path, config)
    assert status == 1
    assert "ingress.listen" in said
    assert "own.pem: expected PEM" in said
    assert "none: cannot be read" in said
