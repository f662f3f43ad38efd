"""The keys of quotas.toml where people and Helm read them: the table in docs/quotas.md, and what the chart refuses.

Both come from `proxy.quotas.keys`, as the sidecar's own reading does. Helm 3 reads no TOML: it compares each key and
each value on a line with a pattern. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from proxy.quotas import priorities
from proxy.quotas.keys import ALL, BY_KIND, RATES, Rate, SectionKind
from proxy.quotas.rate_source import RATE_TABLE_KEYS
from proxy.quotas.reading import PRIORITIES

if TYPE_CHECKING:
    from proxy.quotas.keys import QuotaKey

_TABLE = re.compile(r"^\| key \|.*?(?=\n\n)", re.MULTILINE | re.DOTALL)
_PATTERNS = re.compile(r"^\{\{- \$known := .*?(?=^\{\{- \$rate := )", re.MULTILINE | re.DOTALL)


def with_keys(page: str) -> str:
    """Return the text of docs/quotas.md with the table of keys."""
    rows = ["| key | sections | value | default | |", "|---|---|---|---|---|", *map(_row, ALL)]
    return _TABLE.sub(lambda _: "\n".join(rows), page, count=1)


def with_patterns(template: str) -> str:
    """Return the text of the chart's _quotas.tpl with the patterns of keys and tables."""
    known = [_pattern(kind) for kind in SectionKind]
    known.append(rf"{PRIORITIES}\.({_any(priorities.KEYS)})")
    tables = sorted([*(kind.value for kind in SectionKind), PRIORITIES])
    rates = [key.name for key in ALL if isinstance(key.default, float | Rate)]
    patterns = {
        "known": f"^({'|'.join(known)})$",
        "tables": rf"^({_any(tables)})(\..+)?$",
        "rates": rf"^.+\.({_any(rates)})$",
    }
    return _PATTERNS.sub(
        lambda _: "".join(f"{{{{- ${name} := `{pattern}` }}}}\n" for name, pattern in patterns.items()),
        template,
        count=1,
    )


def _row(key: QuotaKey[Any]) -> str:
    kinds = "all" if set(key.kinds) == set(SectionKind) else ", ".join(f"`{kind.value}`" for kind in key.kinds)
    default = key.default_in_words(SectionKind.BROKER, 0)
    return f"| `{key.name}` | {kinds} | {key.values} | {default} | {key.meaning} |"


def _pattern(kind: SectionKind) -> str:
    """Return the pattern of the keys of a kind of section, with their tables."""
    names = _any(BY_KIND[kind])
    if kind is SectionKind.BROKER:
        names += rf"|({_any(key.name for key in RATES.values())})\.({_any(RATE_TABLE_KEYS)})"
    within = r"(.+\.)?" if kind.has_names else ""
    return rf"{kind.value}\.{within}({names})"


def _any(names: Any) -> str:
    return "|".join(map(re.escape, names))
