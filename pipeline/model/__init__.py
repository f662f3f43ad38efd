"""The models: what would have happened, or will, under other quotas, and which rate a plan needs.

`simulation` runs the sidecar's own admission code; `fluid` treats links as fluids, in no time. Both are plain Python.
"""
