"""In place of cert-manager, which has no one to run it here: the one secret that overlays/mtls asks it for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from lab.brokers.authority import Authority
from tests.kubernetes.test_overlays import DEFINITION

from .deployed import MANIFESTS

if TYPE_CHECKING:
    from pathlib import Path

    from lab.kubernetes.control_plane import ControlPlane


def issue(servers: ControlPlane, folder: Path) -> None:
    """Keys for the names that the overlay's Certificate wants, by an authority of their own."""
    wanted = yaml.safe_load((MANIFESTS / "overlays" / "mtls" / "certificate.yaml").read_text())["spec"]
    definition = DEFINITION.format(kind="Certificate", plural="certificates", group="cert-manager.io")
    servers.kubectl("apply", "-f", "-", said=definition)
    servers.kubectl("wait", "--for=condition=Established", "crd", "certificates.cert-manager.io")
    authority = Authority(folder / "authority")
    both = authority.issue("kafka.pem", wanted["dnsNames"], common_name=wanted["commonName"])
    servers.kubectl("create", "namespace", "kafka")
    files = (f"--from-file=tls-combined.pem={both}", f"--from-file=ca.crt={authority.certificate}")
    servers.kubectl("create", "secret", "generic", wanted["secretName"], "--namespace=kafka", *files)
