"""Counters and rates for people and the exporter, by which nothing is decided."""
