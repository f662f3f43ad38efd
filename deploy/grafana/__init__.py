"""The Grafana dashboard: what it shows (`panels`), and how that becomes Grafana's JSON (`dashboard`).

`python -m deploy.grafana` writes kafka-throttle-sidecar.json anew.
"""
