"""Our tables, field by field and version by version, against the message specs in the brokers' own kafka-clients jars.

Fetches the jars by Maven the first time, as the lab does.
"""

from __future__ import annotations

import json
import re
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from construct import Int8sb, Int16sb, Int32sb, Int64sb

from lab.brokers.jars import kafka_jars
from protocol import metadata, own_requests, produce
from protocol.fetch import tables as fetch
from protocol.wire import headers
from protocol.wire.apis import (
    API_DESCRIBE_CONFIGS,
    API_FETCH,
    API_LIST_PARTITION_REASSIGNMENTS,
    API_METADATA,
    is_flexible,
)
from protocol.wire.layout import NOTHING_SAID, ArrayOf, Encodings, Field, StructOf
from protocol.wire.primitives import UUID, KRecords, KString

if TYPE_CHECKING:
    from collections.abc import Sequence

KAFKA_VERSIONS = ("3.9.1", "4.1.0")
MAX = 2**15 - 1
NAMES = {"request_api_key": "api_key", "request_api_version": "api_version"}
NO_DEFAULT = "no default"


class Spec(NamedTuple):
    """One field in one version: what a spec says of it."""

    name: str
    type: str
    nullable: bool
    default: Any
    tag: int | None
    fields: tuple[Spec, ...]


def spec_of(kafka: str, message: str) -> dict[str, Any]:
    with zipfile.ZipFile(kafka_jars(kafka) / f"kafka-clients-{kafka}.jar") as jar:
        text = jar.read(f"common/message/{message}.json").decode()
    said: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return said


def bounds(versions: str | None) -> range:
    if versions in (None, "none"):
        return range(0)
    first, _, last = str(versions).rstrip("+").partition("-")
    return range(int(first), int(last or (MAX if str(versions).endswith("+") else first)) + 1)


def theirs(fields: Sequence[dict[str, Any]], version: int) -> tuple[Spec, ...]:
    return tuple(
        Spec(
            name=snake(field["name"]),
            type="[]"
            if field["type"].startswith("[]") and "fields" in field
            else "{}"
            if "fields" in field
            else field["type"],
            nullable=version in bounds(field.get("nullableVersions")),
            default=default(field["default"], field["type"]) if "default" in field else NO_DEFAULT,
            tag=field["tag"] if version in bounds(field.get("taggedVersions")) else None,
            fields=theirs(field.get("fields", ()), version),
        )
        for field in fields
        if version in bounds(field["versions"])
    )


def snake(name: str) -> str:
    snaked = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return NAMES.get(snaked, snaked)


def default(text: Any, kind: str) -> Any:
    if text == "null":
        return None
    if kind == "bool":
        return str(text).lower() == "true"
    return int(str(text), 0) if kind.startswith("int") else text


def ours(fields: Sequence[Field], version: int) -> tuple[Spec, ...]:
    return tuple(our(field, version) for field in fields if field.is_in(version))


def our(field: Field, version: int) -> Spec:
    codec = field.codec.plain if isinstance(field.codec, Encodings) else field.codec
    kind, nested = type_of(codec)
    said = NO_DEFAULT if field.default is NOTHING_SAID else field.default
    # Records may be null in every version of their spec.
    nullable = bool(getattr(codec, "nullable", False))
    return Spec(field.name, kind, nullable, said, field.tag, ours(nested, version))


def type_of(codec: Any) -> tuple[str, Sequence[Field]]:
    if isinstance(codec, ArrayOf):
        return ("[]", codec.item) if isinstance(codec.item, tuple) else (f"[]{type_of(codec.item)[0]}", ())
    if isinstance(codec, StructOf):
        return "{}", codec.fields
    if isinstance(codec, KString | KRecords):
        return ("string" if isinstance(codec, KString) else "records"), ()
    numbers = {
        Int8sb: "int8",
        Int16sb: "int16",
        Int32sb: "int32",
        Int64sb: "int64",
        UUID: "uuid",
        metadata.BOOL: "bool",
    }
    return numbers[codec], ()


MESSAGES = {
    "FetchRequest": (fetch.REQUEST, fetch.SUPPORTED_FETCH_VERSIONS),
    "FetchResponse": (fetch.RESPONSE, fetch.SUPPORTED_FETCH_VERSIONS),
    "MetadataRequest": (metadata.REQUEST, range(14)),
    "MetadataResponse": (metadata.RESPONSE, range(14)),
    "ListPartitionReassignmentsRequest": (own_requests.REASSIGNMENTS_REQUEST, own_requests.REASSIGNMENT_VERSIONS),
    "ListPartitionReassignmentsResponse": (
        own_requests.REASSIGNMENTS_RESPONSE,
        own_requests.REASSIGNMENT_VERSIONS,
    ),
    "DescribeConfigsRequest": (own_requests.DESCRIBE_CONFIGS_REQUEST, range(5)),
    "DescribeConfigsResponse": (own_requests.DESCRIBE_CONFIGS_RESPONSE, range(5)),
    "ProduceResponse": (produce.RESPONSE, produce.SUPPORTED_PRODUCE_VERSIONS),
    "RequestHeader": (headers.REQUEST_HEADER, range(3)),
    "ResponseHeader": (headers.RESPONSE_HEADER, range(2)),
}


@pytest.mark.brokers
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kafka", KAFKA_VERSIONS)
@pytest.mark.parametrize("message", MESSAGES)
def test_fields_are_those_of_the_spec(kafka: str, message: str) -> None:
    table, versions = MESSAGES[message]
    said = spec_of(kafka, message)
    compared = [version for version in versions if version in bounds(said["validVersions"])]
    assert set(compared) == set(bounds(said["validVersions"])), "there is a version we do not know"
    for version in compared:
        assert ours(table, version) == theirs(said["fields"], version), f"{message} v{version}"


@pytest.mark.brokers
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kafka", KAFKA_VERSIONS)
@pytest.mark.parametrize(
    ("message", "api_key"),
    [
        ("Fetch", API_FETCH),
        ("Metadata", API_METADATA),
        ("DescribeConfigs", API_DESCRIBE_CONFIGS),
        ("ListPartitionReassignments", API_LIST_PARTITION_REASSIGNMENTS),
    ],
)
def test_flexible_versions_are_those_of_the_spec(kafka: str, message: str, api_key: int) -> None:
    for kind in ("Request", "Response"):
        said = spec_of(kafka, message + kind)
        flexible = bounds(said["flexibleVersions"])
        for version in bounds(said["validVersions"]):
            assert is_flexible(api_key, version) == (version in flexible)


@pytest.mark.brokers
@pytest.mark.timeout(300)
def test_all_versions_of_fetch_are_known_to_one_of_them_or_the_other() -> None:
    valid = {version for kafka in KAFKA_VERSIONS for version in bounds(spec_of(kafka, "FetchRequest")["validVersions"])}
    assert valid == set(fetch.SUPPORTED_FETCH_VERSIONS)
