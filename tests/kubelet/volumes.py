"""What a provisioner of volumes would make: a folder of the node, kept for one claim."""

from __future__ import annotations

_VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 100Gi}}
  accessModes: [{mode}]
  claimRef: {{namespace: {namespace}, name: {claim}}}
  local: {{path: /var/lib/lab/{folder}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]
---
"""


def local_volume(name: str, *, node: str, folder: str, namespace: str, claim: str, mode: str = "ReadWriteOnce") -> str:
    """A document of YAML. `folder`: below `Node.files`."""
    return _VOLUME.format(name=name, node=node, folder=folder, namespace=namespace, claim=claim, mode=mode)
