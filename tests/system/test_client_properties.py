"""Real brokers of 3.9 accept a client that goes by `client.properties` as it is found in the wild."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from lab.brokers.releases import release
from lab.brokers.security import PASSWORD, USER, Security
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import SECURED_PORT
from operating.moves.cluster import Connection, connect
from proxy.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path

    from lab.cluster.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]
MODULE = "org.apache.kafka.common.security"
TRUSTED = "ssl.truststore.location=$/trust.jks\nssl.truststore.password=changeit\n"
FILES = {
    Security.SASL_SSL: f"""{TRUSTED}sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={MODULE}.scram.ScramLoginModule required username='{USER}' \\
    password = "{PASSWORD}" user_password=other; \n""",
    Security.SASL_PLAINTEXT: f"""bootstrap.servers=ignored:1\nacks=all\nsasl.mechanism=PLAIN
sasl.jaas.config={MODULE}.plain.PlainLoginModule required username={USER} // password="old"\\n\\
    password="{PASSWORD}";\n""",
    Security.OAUTHBEARER: f"""sasl.mechanism=OAUTHBEARER
sasl.jaas.config={MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";\n""",
    Security.MTLS: f"""{TRUSTED}ssl.keystore.location=$/own.p12\nssl.keystore.password=changeit\n""",
}


def write_stores(home: Path, cluster: Cluster) -> None:
    """PKCS12, as keytool writes it."""
    encrypted = serialization.BestAvailableEncryption(b"changeit")
    authority = x509.load_pem_x509_certificate(cluster.keys.authority.certificate.read_bytes())
    trusted = [pkcs12.PKCS12Certificate(authority, b"ca")]
    (home / "trust.jks").write_bytes(pkcs12.serialize_java_truststore(trusted, encrypted))
    own = cluster.keys.authority.issue("operator.pem", ["operator"]).read_bytes()
    key, certificate = load_pem_private_key(own, None), x509.load_pem_x509_certificate(own)
    (home / "own.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"own", key, certificate, None, encrypted))


@pytest.mark.parametrize("security", FILES, ids=lambda security: security.value)
def test_a_broker_accepts_the_client(security: Security, tmp_path: Path) -> None:
    plan = ClusterPlan(brokers=(101, 102), release=release(protocol="3.9"), security=security, taps=False)
    cluster = trio.run(start_cluster, plan)
    try:
        if security.brokers_encrypt:
            write_stores(tmp_path, cluster)
        text = f"security.protocol={security.protocol}\n{FILES[security]}".replace("$", str(tmp_path))
        path = tmp_path / "client.properties"
        path.write_text(text)
        where = Connection((f"kafka-101:{SECURED_PORT}",), path, cluster.admin.hosts)
        with connect(where) as found:
            assert found.look([]).brokers == {101, 102}
        if security.mechanism in ("PLAIN", "SCRAM-SHA-512"):
            path.write_text(text.replace(PASSWORD, "wrong"))
            with pytest.raises(ClusterError, match=r"no broker answers: .*[Aa]uthentication"), connect(where):
                pass
    finally:
        cluster.close()
