"""Kubernetes' policy that adds the sidecar, with what Kyverno's adds: one is CEL, the other YAML. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml


def with_addition(mutating: str, cluster_policy: str) -> str:
    """Return the text of mutating.yaml with what cluster-policy.yaml adds."""
    # A backslash keeps Kyverno from taking $(POD_NAME) for a reference of its own.
    (rule,) = yaml.safe_load(cluster_policy.replace("\\$(", "$("))["spec"]["rules"]
    patch = rule["mutate"]["patchStrategicMerge"]
    (mark,) = patch["metadata"]["annotations"].values()
    for name, value in {"mark": mark, "addition": patch["spec"]}.items():
        line = f"    - {{name: {name}, expression: {json.dumps(as_cel(value))}}}"
        mutating = re.sub(
            rf"^    - \{{name: {name}, .*$", line.replace("\\", r"\\"), mutating, count=1, flags=re.MULTILINE
        )
    return mutating


def as_cel(value: Any) -> str:
    """Return a literal of CEL, which takes lists and maps of one type alone, or of what is any type."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)}: dyn({as_cel(each)})' for key, each in sorted(value.items()))}}}"
    if isinstance(value, list):
        return f"[{', '.join(f'dyn({as_cel(each)})' for each in value)}]"
    return json.dumps(value)
