"""Kafka's brokers as processes: their jars, releases, configuration, certificates and own metrics."""
