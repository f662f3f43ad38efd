"""Files that are kept twice below deploy/, because their readers cannot reach the first place. `python -m deploy`
writes it.

Invariant: nobody edits the second place; tests/deploy/test_derived.py holds both equal.
"""

from __future__ import annotations

from pathlib import Path

from .settings_schema import with_settings

HERE = Path(__file__).parent
RULES = ("recording.rules.yaml", "alerts.rules.yaml")
_HEAD = """\
# Written by `python -m deploy` from deploy/prometheus: change the rules there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kafka-throttle-sidecar
spec:
"""


def all_rules(rules: Path = HERE / "prometheus") -> str:
    """Return the groups of all files as one list, comments and all."""
    texts = [(rules / name).read_text("utf-8") for name in RULES]
    return "groups:\n" + "".join(text.partition("\ngroups:\n")[2].rstrip("\n") + "\n" for text in texts)


def prometheus_rule() -> str:
    """Return all rules as one object of the Prometheus Operator's."""
    return _HEAD + "".join(f"  {line}\n" if line else "\n" for line in all_rules().splitlines())


def derived(root: Path = HERE) -> dict[Path, str]:
    """Return what is to be in each file, below `root`."""
    schema = root / "helm" / "values.schema.json"
    return {
        schema: with_settings((HERE / "helm" / schema.name).read_text("utf-8")),
        root / "kubernetes" / "components" / "prometheus-operator" / "prometheus-rule.yaml": prometheus_rule(),
    }
