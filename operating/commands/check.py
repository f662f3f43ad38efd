"""``check``: validates both files and shows their meaning for this broker. Needs no network.

Invariant: exit status 0 exactly when ``run`` would accept both files.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from proxy.errors import ConfigurationError
from proxy.files.reading import is_directory
from proxy.quota_files.quota_file import load_quotas_file

from ..checking.keys import load_keys
from ..checking.report import Moments, report_lines, report_on
from ..checking.running_state import RunningState, ask_running
from ..configuration import load_configuration, state_of
from ..quota_words import parse_moment
from ..terminal import encoded, say, say_json
from .options import FILE, config_option, json_option, parsed, set_option

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.config.settings import Settings
    from proxy.quotas import QuotaFile
    from proxy.tls.contexts import Loaded


@click.command("check", short_help="Validate both files, show the quotas in effect.")
@config_option
@set_option
@click.option(
    "--quotas",
    "quotas_path",
    type=FILE,
    metavar="FILE",
    help="This quotas file instead of proxy.toml's.",
)
@click.option("--at", "at", metavar="TIME", help="Show what holds at 2026-12-01T23:30:00+01:00.  [default: now]")
@json_option
def command(
    *,
    config_path: Path,
    overrides: tuple[str, ...],
    quotas_path: Path | None,
    at: str | None,
    as_json: bool,
) -> None:
    """Validate proxy.toml and quotas.toml and show the quotas in effect for this broker.

    Every problem of both files is listed, with its key and what was expected. Each value is shown with its layer
    (default, section of the file, or override), its end, and the value that an override hides; then the next changes. A
    warning is about something valid that is probably not meant, such as a rate without replicas.

    The sidecar of this proxy.toml is asked for its overrides and conditions, if it runs; else what it has
    stored is looked at, and if it may run, the output says so. Exit status 0: both files are valid. 1: a file is not.

    \b
    Examples:
      throttle-sidecar check --config proxy.toml
      throttle-sidecar check --at 2026-12-01T03:30:00+01:00      what will hold tonight?
      throttle-sidecar check --config proxy.toml --quotas quotas.new.toml && mv quotas.new.toml quotas.toml
    """
    try:
        now = datetime.now(UTC)
        moment = now if at is None else parsed("--at", parse_moment, at)
        settings, quota_file, path, keys = _load(config_path, overrides, quotas_path)
        running = ask_running(settings)
        moments = Moments(
            moment, now, running.state if isinstance(running, RunningState) else state_of(settings, overrides)
        )
    except ConfigurationError as error:
        if not as_json:
            raise
        say_json(encoded({"ok": False, "problems": error.problems}))
        raise click.exceptions.Exit(1) from error
    report = report_on(settings, quota_file, path, moments, keys=keys, running=running)
    if as_json:
        say_json(encoded(report))
    else:
        say("\n".join(report_lines(report)))


def _load(
    config_path: Path, overrides: tuple[str, ...], quotas_path: Path | None
) -> tuple[Settings, QuotaFile, Path, dict[str, Loaded]]:
    """Load both files and the keys, or collect the problems of all."""
    problems: list[str] = []
    settings = quota_file = None
    keys: dict[str, Loaded] = {}
    try:
        settings = load_configuration(config_path, overrides)
        quotas_path = quotas_path or settings.quotas.file
        problems += _about_journal(settings)
        keys = load_keys(settings)
    except ConfigurationError as error:
        problems += error.problems
    try:
        quota_file = load_quotas_file(quotas_path) if quotas_path is not None else None
    except ConfigurationError as error:
        problems += error.problems
    if settings is None or quota_file is None or quotas_path is None or problems:
        raise ConfigurationError(problems)
    return settings, quota_file, quotas_path, keys


def _about_journal(settings: Settings) -> list[str]:
    """Return the problems of its directory that `run` would refuse, as far as that shows without writing: it is made if
    it is not there, and who may write there is the sidecar's user, who may be another."""
    if settings.journal is None:
        return []
    directory = settings.journal.directory
    place = next(each for each in (directory, *directory.absolute().parents) if os.path.lexists(each))
    try:
        if is_directory(place):
            return []
    except ConfigurationError as error:
        return [f"journal.directory: {problem}" for problem in error.problems]
    return [f"journal.directory: expected a directory, found {place}, which is none"]
