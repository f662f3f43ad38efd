"""The sidecars of a cluster: their configuration, their processes, and what they say over HTTP."""
