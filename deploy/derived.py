"""What is kept twice below deploy/, because who reads it cannot reach the first place. `python -m deploy` writes it.

Invariant: nobody edits the second place; tests/deploy/test_derived.py holds both equal.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
RULES = ("recording.rules.yaml", "alerts.rules.yaml")
_HEAD = """\
# Written by `python -m deploy` from deploy/prometheus: change the rules there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kafka-throttle-sidecar
spec:
  groups:
"""


def prometheus_rule(rules: Path = HERE / "prometheus") -> str:
    """All rules as one object of the Prometheus Operator's, comments and all."""
    return _HEAD + "".join(_groups((rules / name).read_text("utf-8")) for name in RULES)


def _groups(text: str) -> str:
    """The list under the one key `groups`, two columns further to the right."""
    _, _, groups = text.partition("\ngroups:\n")
    return "".join(f"  {line}\n" if line else "\n" for line in groups.rstrip("\n").split("\n"))


def derived(root: Path = HERE) -> dict[Path, str]:
    """What is to be in each file, below `root`."""
    return {
        root / "kubernetes" / "components" / "prometheus-operator" / "prometheus-rule.yaml": prometheus_rule(),
    }
