"""On nodes that run pods."""
