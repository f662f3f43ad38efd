"""Fetch sessions (KIP-227): the follower's, translated into those that the sidecar owns at the leader."""
