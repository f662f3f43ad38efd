"""The table [log] of proxy.toml."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class LogFormat(enum.StrEnum):
    JSON = "json"
    CONSOLE = "console"


class LogLevel(enum.StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of ``[log]``."""

    format: LogFormat = LogFormat.JSON
    level: LogLevel = LogLevel.INFO
