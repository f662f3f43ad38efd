"""Kafka's bytes as the lab needs them: records to produce, requests, and Fetch frames read as they stream by. Pure."""
