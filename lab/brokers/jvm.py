"""The command line of a Java program of the lab: small heap, serial collector, first-tier compiler, logs to one file.

Knows no program. Invariant: what is started here needs no setting from the user's environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .jars import java_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOGGING = """log4j.rootLogger=WARN, file
log4j.logger.kafka=INFO
log4j.logger.org.apache.kafka=INFO
log4j.logger.org.apache.kafka.clients.consumer=WARN
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d{{ISO8601}}] %p %m (%c)%n
"""
"""The text of log4j.properties; `file` is the log file's path."""


def jvm_command(
    main: str,
    *arguments: str,
    home: Path,
    jars: Path,
    heap_mb: int = 256,
    hosts: Path | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """Return the command line of a Java program whose log4j.properties is in `home`.

    Args:
        main: class name.
        arguments: of the program.
        home: where it may write.
        jars: folder of its class path.
        heap_mb: largest heap, MiB.
        hosts: the only names it can resolve, and their addresses.
        options: further ones of the JVM.
    """
    resolver = [f"-Djdk.net.hosts.file={hosts}"] if hosts else []
    return [
        java_command(), f"-Xmx{heap_mb}m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData", "-Xshare:auto", "-Djava.awt.headless=true",
        f"-Dlog4j.configuration=file:{home / 'log4j.properties'}", *resolver, *options,
        "-cp", f"{jars}/*", main, *arguments,
    ]  # fmt: skip
