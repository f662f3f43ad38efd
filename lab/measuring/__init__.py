"""Measurements from outside: taps on the wire, logs on disk, and a real Prometheus."""
