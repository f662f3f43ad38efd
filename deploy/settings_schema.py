"""The schema of the chart's value `settings`: the keys of proxy.toml by their paths, each with what it may hold.

It comes from the same declarations as the sidecar's own reading, so `helm template` refuses a key or a value that a
sidecar would not start with. Values are what `--set` takes: text may be in quotes, lists are TOML text. Pure.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from proxy.config import names_settings, tls_reading
from proxy.config.settings import Settings
from proxy.config.tables import FIXED, READ_APART, AtLeastOne, BrokerId, Bytes, Count, Key, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACE = re.compile(r'^    "settings": \{.*?^    \},\n', re.MULTILINE | re.DOTALL)
_TEXT = {"type": "string"}
_LIST = {"type": "string", "pattern": r"^\s*\["}
_SWITCH = {"enum": [True, False, "true", "false"]}
_SECONDS = {"type": "string", "pattern": r'^["\']?[0-9]{1,12}(\.[0-9]{1,9})? *(ms|s|m|h)["\']?$'}
_UNIT = "(B|[kK]B|KiB|MB|MiB|GB|GiB|TB|TiB)"
_BYTES = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": rf'^["\']?[0-9]{{1,20}}((\.[0-9]{{1,20}})? *{_UNIT})?["\']?$'},
    ]
}


def with_settings(schema: str) -> str:
    """Return the text of values.schema.json with what `settings` may be."""
    settings = {
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted((*_keys(Settings, ""), *_read_apart()))),
    }
    lines = json.dumps(settings, indent=2, ensure_ascii=False).splitlines()
    text = "\n".join(f"    {line}" for line in lines).lstrip()
    return _PLACE.sub(lambda _: f'    "settings": {text},\n', schema, count=1)


def _keys(table: type, within: str) -> Iterator[tuple[str, dict[str, Any]]]:
    hints = get_type_hints(table, include_extras=True)
    for field in dataclasses.fields(table):
        hint = hints[field.name]
        metadata = getattr(hint, "__metadata__", ())
        if field.name == "path" or READ_APART in metadata or FIXED in metadata:
            continue
        name = next((each.name for each in metadata if isinstance(each, Key)), field.name)
        bare = _bare(hint)
        if dataclasses.is_dataclass(bare) and isinstance(bare, type):
            yield from _keys(bare, f"{within}{name}.")
        else:
            yield f"{within}{name}", _value(hint, bare)


def _bare(hint: Any) -> Any:
    """Return the type itself, without what is annotated and without None."""
    while get_origin(hint) is Annotated or isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    return hint


def _value(hint: Any, bare: Any) -> dict[str, Any]:
    metadata = getattr(hint, "__metadata__", ())
    for known, schema in _numbers():
        if set(known.__metadata__) <= set(metadata):
            return schema
    if get_origin(bare) is tuple:
        return _LIST
    if bare is bool:
        return _SWITCH
    if isinstance(bare, type) and issubclass(bare, enum.StrEnum):
        return {"enum": [text for each in bare for text in (each.value, f'"{each.value}"')]}
    return _TEXT


def _numbers() -> tuple[tuple[Any, dict[str, Any]], ...]:
    counts = (BrokerId, _at_least(0)), (Count, _at_least(0)), (AtLeastOne, _at_least(1))
    return (Seconds, _SECONDS), (Bytes, _BYTES), *counts


def _at_least(least: int) -> dict[str, Any]:
    return {"anyOf": [{"type": "integer", "minimum": least}, {"type": "string", "pattern": "^[0-9]+$"}]}


def _read_apart() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys that are Kafka's own."""
    listen, upstream = tls_reading.OF_LISTEN, (*tls_reading.OF_UPSTREAM, "server_name")
    for leg, own in {
        "ingress.tls.listen": listen,
        "ingress.tls.upstream": upstream,
        "egress.tls.listen": listen,
        "egress.tls.upstream": tls_reading.OF_UPSTREAM,
        "http.tls": listen,
    }.items():
        for key in (*tls_reading.KEYS, *own):
            yield f"{leg}.{key}", _TEXT
    for key in names_settings.KEYS:
        yield f"names.{key}", _TEXT
