"""The API table against Kafka's own (golden/header_versions.jsonl)."""

from __future__ import annotations

from protocol.wire.apis import API_FETCH, APIS, api_name, is_flexible

from ..frames import golden_lines


def test_names_are_kafkas() -> None:
    kafkas = {key: name for key, name, *_ in golden_lines("header_versions.jsonl")}
    assert {api.key: api.name for api in APIS.values()} == kafkas


def test_flexible_versions_are_kafkas() -> None:
    for key, name, version, request_header, _ in golden_lines("header_versions.jsonl"):
        assert is_flexible(key, version) == (request_header == 2), f"{name} v{version}"


def test_names_of_keys_nobody_knows() -> None:
    assert api_name(API_FETCH) == "Fetch"
    assert api_name(9999) == "Unknown(9999)"
    assert is_flexible(9999, 0)
