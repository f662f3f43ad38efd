"""Asks brokers about the cluster: topic names, listed topics, racks, replicas in sync, links."""
