"""Of the webhook that gives pods their sidecar."""
