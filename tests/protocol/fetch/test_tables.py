"""Which field is in which version, against what Kafka prints."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, request_layout, response_layout
from protocol.wire.layout import TAGS, item_struct

from ..frames import FETCHES, Golden

TAGGED = {"clusterId", "replicaState", "nodeEndpoints"}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


@pytest.mark.parametrize("case", [each for each in FETCHES if "two" in each.name], ids=lambda case: case.name)
def test_fields_are_kafkas(case: Golden) -> None:
    body = request_layout(case.version) if case.kind == "request" else response_layout(case.version)
    said = case.said["body"]
    written = [camel(field.name) for field in body.subcons if field.name != TAGS]
    assert written == [name for name in said if name not in TAGGED]
    array = "topics" if case.kind == "request" else "responses"
    entry = item_struct(item_struct(body, array), "partitions")
    names = [camel(field.name) for field in entry.subcons if field.name != TAGS]
    said_names = ["records" if name == "recordsSizeInBytes" else name for name in said[array][0]["partitions"][0]]
    assert names == said_names


def test_every_version_is_there_in_both_directions() -> None:
    assert {(each.kind, each.version) for each in FETCHES} == {
        (kind, version) for kind in ("request", "response") for version in SUPPORTED_FETCH_VERSIONS
    }


@pytest.mark.parametrize("version", [-1, 19, 32767])
def test_other_versions_are_refused(version: int) -> None:
    for layout_of in (request_layout, response_layout):
        with pytest.raises(ProtocolError, match="not supported"):
            layout_of(version)
