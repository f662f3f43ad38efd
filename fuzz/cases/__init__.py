"""Conversations that an attacker holds with the sidecar, made at random or by hand, and put on the wire."""
