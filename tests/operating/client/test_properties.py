"""Files as they are found: what Kafka's tools understand is understood, and what concerns security is never ignored."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operating.client.properties import read_properties, usable_client_properties
from proxy.errors import ClusterError, ConfigurationError, InvalidValueError

if TYPE_CHECKING:
    from pathlib import Path


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LOGIN = f'sasl.jaas.config={SCRAM} username="ana" password="geheim";'
ANA = {"sasl_plain_username": "ana", "sasl_plain_password": "geheim"}
MSK = """\
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""
CONFLUENT_CLOUD = """\
# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=pkc-1.eu-central-1.aws.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username='ana' password='geheim';
sasl.mechanism=PLAIN
# Required for correctness in Apache Kafka clients prior to 2.6
client.dns.lookup=use_all_dns_ips
# Best practice for higher availability in Apache Kafka clients prior to 3.0
session.timeout.ms=45000
acks=all
retries=2147483647
request.timeout.ms=20000
"""
KAFKAS_OWN = f"""\
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={SCRAM} \\
    username="ana" \\
    password="geheim";
security.protocol=SASL_PLAINTEXT
key.serializer=org.apache.kafka.common.serialization.StringSerializer
metrics.recording.level=INFO
"""


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if botocore and gssapi were installed."""
    monkeypatch.setattr("operating.client.login.importlib.util.find_spec", lambda name: name)


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    """Return the arguments, those of TLS left out."""
    (tmp_path / "client.properties").write_bytes(text.replace("$", str(tmp_path)).encode())
    found = usable_client_properties(tmp_path / "client.properties")
    context = found.pop("ssl_context", None)
    assert isinstance(context, ssl.SSLContext) == (found["security_protocol"] in ("SSL", "SASL_SSL"))
    return found


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {"security_protocol": "PLAINTEXT"}),
        ("\ufeffsecurity.protocol=SSL\r\n", {"security_protocol": "SSL"}),
        (MSK, {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}),
        (CONFLUENT_CLOUD,
         {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "request_timeout_ms": 20_000, **ANA}),
        (KAFKAS_OWN, {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512", **ANA}),
        # Of librdkafka's clients.
        ("security.protocol=sasl_ssl\nsasl.mechanisms=SCRAM-SHA-256\nsasl.username=ana\nsasl.password=geheim \n",
         {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", **ANA}),
        (("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=broker\n"
         "sasl.kerberos.kinit.cmd=/usr/bin/kinit"),
         {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "broker"}),
        (("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.jaas.config="
         'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true serviceName="broker";'),
         {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "broker"}),
        # Of what is not spoken nothing is read, as with Kafka's own tools.
        ("ssl.ca.location=$/gone.pem\nsasl.mechanism=no\nsasl.jaas.config=no", {"security_protocol": "PLAINTEXT"}),
        ("ssl.protocol=TLS\nssl.keymanager.algorithm=PKIX\nclient.id: ops\nsasl.login.refresh.buffer.seconds=5",
         {"security_protocol": "PLAINTEXT", "client_id": "ops"}),
    ],
)  # fmt: skip
def test_what_kafkas_tools_read_is_read(tmp_path: Path, text: str, arguments: dict[str, Any]) -> None:
    assert read(tmp_path, text) == arguments


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("security.protocol=TLS",
         'security.protocol: expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, found "TLS"'),
        ("request.timeout.ms=soon", 'request.timeout.ms: expected milliseconds, found "soon"'),
        ("request.timeout.ms=" + "9" * 5000, "request.timeout.ms: expected milliseconds, found "),
        # Ignored, they would leave a connection that is less secure than the file says.
        ("ssl.trustore.location=/x", "ssl.trustore.location: not understood here (did you mean ssl.truststore."),
        ("securty.protocol=SSL", "securty.protocol: not a key of Kafka's (did you mean security.protocol?)"),
        ("ssl.engine.factory.class=com.example.Own", "ssl.engine.factory.class: not understood here"),
        ("security.providers=com.example.Own", "security.providers: not understood here"),
        ("config.providers=vault\nsasl.password=${vault:x}", "config.providers: not understood here"),
        ("sasl.login.callback.handler.class=com.example.Own",
         "sasl.login.callback.handler.class: a class of Java's that is not understood here; expected org.apache.kafka"),
        ("a=\\u12", "line 1: expected four hexadecimal digits after \\u"),
        ("security.protocol=SASL_SSL\n" + LOGIN, "sasl.mechanism: missing, and security.protocol asks for SASL"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM", "sasl.mechanism: expected one of PLAIN, SCRAM-"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ana",
         'sasl.jaas.config: expected username="…" and password="…", which PLAIN needs'),
        (f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{LOGIN[:-1]}",
         "sasl.jaas.config: expected a semicolon at the end"),
        (MSK.replace("required;", "required awsProfileName=ops;"),
         "sasl.jaas.config: awsProfileName: not understood here: export AWS_PROFILE"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config=M required;",
         "sasl.oauthbearer.token.endpoint.url: OAUTHBEARER needs the URL of a token endpoint"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_at_once(tmp_path: Path, text: str, problem: str) -> None:
    """kafka-python would find out in the middle of each connection, and try for 15 seconds more."""
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'client.properties'}: {problem}")
    assert not isinstance(error.value, ClusterError)
    assert "geheim" not in str(error.value)


def test_every_problem_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, "security.protocol=SASL_SSL\nssl.ca.location=$/gone\nsasl.mechanism=no\nssl.no=1\n")
    keys = [problem.split(": ")[1] for problem in error.value.problems]
    assert keys == ["ssl.no", "ssl.ca.location", "sasl.mechanism"]


@pytest.mark.parametrize(("mechanism", "package"), [("GSSAPI", "gssapi"), ("AWS_MSK_IAM", "botocore")])
def test_a_mechanism_whose_package_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str, package: str
) -> None:
    monkeypatch.setattr("operating.client.login.importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=rf"{mechanism} needs the package {package}: pip install {package}"):
        read(tmp_path, f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone: cannot be read: No such file or directory"):
        usable_client_properties(tmp_path / "gone")


@pytest.mark.parametrize("ends", [" \\", ""])
def test_no_part_of_a_key_is_shown(tmp_path: Path, ends: str) -> None:
    """PEM in the file itself, whether its lines are continued or not."""
    text = f"ssl.keystore.key=-----BEGIN PRIVATE KEY-----{ends}\nMIIgeheim{ends}\n-----END PRIVATE KEY-----\n"
    chain = text.replace("PRIVATE KEY", "CERTIFICATE").replace(".key", ".certificate.chain")
    with pytest.raises(ConfigurationError, match=r"ssl\.keystore") as error:
        read(tmp_path, f"security.protocol=SSL\n{text}{chain}")
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "properties"),
    [
        (b"", {}),
        (b"# by Ana\n! and Ben\n\n  # indented\na=1\n", {"a": "1"}),
        (b"a = 1\nb:2\nc 3\nd\te\n f=g=h", {"a": "1", "b": "2", "c": "3", "d": "e", "f": "g=h"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a\nb=\n", {"a": "", "b": ""}),
        (b"a=x\\\n    y \\\n  #z\n\\\n  b=c", {"a": "xy #z", "b": "c"}),
        (b"a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        (b"a=ends here\\", {"a": "ends here"}),
        (rb"a\ b\=c=\u00e9\t\q", {"a b=c": "\u00e9\tq"}),
        # As Java has it, this is no UTF-8; a password of its form is that which its users log in with.
        ("a=\u00e9".encode(), {"a": "\u00c3\u00a9"}),
        (b"a=\xe9", {"a": "\u00e9"}),
        # These end no line of Java's.
        (b"a=\x85\x0b\x1cb", {"a": "\x85\x0b\x1cb"}),
        (b"a= x  ", {"a": "x  "}),
        (b"\xef\xbb\xbfa=1", {"a": "1"}),
    ],
)
def test_a_file_means_what_it_means_to_java(content: bytes, properties: dict[str, str]) -> None:
    assert read_properties(content) == properties


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a=1\n\nb=gehe\\u12im", "line 3: expected four hexadecimal digits after \\u"),
        ("a=geheim".encode("utf-16"), "expected plain text, found UTF-16"),
    ],
)
def test_what_java_cannot_load_is_said(content: bytes, problem: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        read_properties(content)
    assert str(error.value).startswith(problem)
    assert "gehe" not in str(error.value)


@given(st.dictionaries(st.text(alphabet=st.characters(max_codepoint=255), min_size=1), st.text(max_size=8), max_size=4))
def test_whatever_is_escaped_is_read(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

    expected = {key: value for key, value in properties.items() if not any(c > "\uffff" for c in value)}
    content = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in expected.items())
    assert read_properties(content.encode("ascii")) == expected
