"""``webhook``: gives brokers' pods their sidecar as they are made. What that means is `operating.injection`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click
import trio

from operating.injection.server import Webhook, WebhookSettings
from proxy.config.settings_values import parse_address
from proxy.logs.log import dropped_line, open_log
from proxy.logs.log_settings import LogSettings
from proxy.logs.queue import LogQueue

from .options import FILE, parsed


@click.command("webhook", short_help="On Kubernetes: inject the sidecar into brokers' pods.")
@click.option("--listen", default="0.0.0.0:8443", show_default=True, metavar="HOST:PORT", help="Where it serves HTTPS.")
@click.option(
    "--certificate", type=FILE, default=Path("/etc/throttle-webhook-tls/tls.crt"), show_default=True, help="PEM."
)
@click.option("--key", type=FILE, default=Path("/etc/throttle-webhook-tls/tls.key"), show_default=True, help="PEM.")
@click.option(
    "--addition",
    type=FILE,
    default=Path("/etc/throttle-webhook/addition.json"),
    show_default=True,
    help="What is added to a pod, as the Helm chart renders it.",
)
def command(listen: str, certificate: Path, key: Path, addition: Path) -> None:
    """Answer the API server's AdmissionReviews until SIGTERM: inject the sidecar into brokers' pods.

    A pod with the label kafka-throttle-sidecar/inject=true gets the sidecar once, or is refused with a reason; any
    other passes unchanged. The Helm chart (deploy/helm, webhook.create) runs and registers this. Changed files are
    read within two seconds.

    \b
    Example:
      throttle-sidecar webhook --certificate tls.crt --key tls.key --addition addition.json
    """
    settings = WebhookSettings(parsed("--listen", parse_address, listen), certificate, key, addition)
    how = LogSettings()
    queue = LogQueue(sys.stdout, tell=partial(dropped_line, how))
    log = open_log(how, queue, queue.dropped)
    try:
        trio.run(Webhook(settings, log).run)
    finally:
        queue.finish()
