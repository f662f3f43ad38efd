"""The layout of quotas.toml as people wrote it: where a key, a header or a schedule stands, and how it is taken out.

Values are changed in tomlkit's document, which keeps comments, order and spelling; headers and schedules are lines of
text, because tomlkit counts the comments that lead on to the next section as part of the one before. Knows no file.
Invariant: no line that is only a comment is ever taken out. Whoever calls compares the facts before and after.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import tomlkit

from proxy.quotas.section_reading import SCHEDULES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from .facts import Path


_LONE_LF = re.compile(r"(?<!\r)\n")


def within(table: Any, path: Path) -> Any:
    """The table at `path` of tomlkit's document, None if there is none."""
    for key in path:
        if isinstance(key, int):
            table = table[key] if key < len(table) else None
        elif not hasattr(table, "keys") or key not in table:
            return None
        else:
            table = table[key]
    return table


def with_line_ends_of(before: str, after: str) -> str:
    """Return `after` with the line ends of `before`, if those are all CRLF: tomlkit ends what is new with LF."""
    if "\r\n" not in before or _LONE_LF.search(before):
        return after
    return _LONE_LF.sub("\r\n", after)


def replace_value(table: Any, parts: list[str], value: Any) -> bool:
    """Put it where that dotted key stands, however it is spelt; False if it stands nowhere."""
    found = _holder(table, parts)
    if found is not None:
        holder, key = found
        holder[key] = as_toml(value)
    return found is not None


def as_toml(value: Any) -> Any:
    """As tomlkit writes it: the table of a rate that sets itself stands on one line."""
    if not isinstance(value, dict):
        return tomlkit.item(value)
    table = tomlkit.inline_table()
    table.update(value)
    return table


def as_inline(table: dict[str, Any]) -> str:
    """The same as text: ``{within = "2h", max = "300MiB/s"}``."""
    text: str = as_toml(table).as_string()
    return text


def assignments(values: Mapping[str, Any]) -> list[str]:
    """One line for each key, as a section has them."""
    return [f"{key} = {as_toml(value).as_string()}" for key, value in values.items()]


def appended(text: str, lines: Iterable[str]) -> str:
    """What is new goes to the end, where it moves nothing."""
    newline = "\r\n" if "\r\n" in text else "\n"
    before = text.rstrip()
    return f"{before}{newline * 2 if before else ''}{newline.join(lines)}{newline}"


def delete_value(table: Any, parts: list[str]) -> None:
    found = _holder(table, parts)
    if found is not None:
        holder, key = found
        del holder[key]


def _holder(table: Any, parts: list[str]) -> tuple[Any, str] | None:
    """Where a dotted key stands, however it is spelt: the innermost table, and the key in it."""
    for size in range(len(parts), 0, -1):
        key = ".".join(parts[:size])
        if hasattr(table, "keys") and key in table:
            found = (table, key) if size == len(parts) else _holder(table[key], parts[size:])
            if found is not None:
                return found
    return None


def loses_comments(before: str, after: str) -> bool:
    """Whether a line that is only a comment is gone: tomlkit has the comments below a table, which may be of what comes
    next, go with the table, as where a rate was written as one."""
    return bool(_comments(before) - _comments(after))


def _comments(text: str) -> Counter[str]:
    lines = (line.strip() for line in text.splitlines())
    return Counter(line for line in lines if line.startswith("#"))


def without_headers(text: str, emptied: Collection[Path]) -> str:
    """Sections that lost their last key lose their header; comments in them stay, they may be of what comes next."""
    lines = text.splitlines(keepends=True)
    return _without(lines, [number for number, path in _headers(lines) if path in emptied])


def without_schedule_blocks(text: str, gone: Collection[int]) -> str:
    """Schedules without their headers and keys, down to the next that is not theirs; comments stay."""
    lines = text.splitlines(keepends=True)
    taken: list[int] = []
    headers = [*_headers(lines), (len(lines), ())]
    for (begin, path), (end, _) in pairwise(headers):
        if path[:1] == (SCHEDULES,) and len(path) > 1 and path[1] in gone:
            block = [number for number in range(begin, end) if not lines[number].lstrip().startswith("#")]
            taken += [number for number in block if lines[number].strip()]
    return _without(lines, taken)


def _without(lines: list[str], taken: list[int]) -> str:
    """Without these lines, and without the gaps that they leave beside other gaps."""
    if not taken:
        return "".join(lines)
    for number in reversed(taken):
        del lines[number]
        if number < len(lines) and not lines[number].strip() and (number == 0 or not lines[number - 1].strip()):
            del lines[number]
    while lines and not lines[-1].strip():
        del lines[-1]
    return "".join(lines)


def _headers(lines: list[str]) -> Iterator[tuple[int, Path]]:
    """Line numbers of the headers, and what begins there."""
    schedule = -1
    for number, line in enumerate(lines):
        path = _header(line)
        if path == (SCHEDULES,) and line.lstrip().startswith("[["):
            schedule += 1
            path = (SCHEDULES, schedule)
        elif path[:1] == (SCHEDULES,):
            path = (SCHEDULES, schedule, *path[1:])
        if path:
            yield number, path


def _header(line: str) -> Path:
    if not line.lstrip().startswith("["):
        return ()
    try:
        parsed: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path = []
    while isinstance(parsed, dict) and parsed:
        name, parsed = next(iter(parsed.items()))
        path.append(name)
    return tuple(path)
