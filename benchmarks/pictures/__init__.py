"""README's pictures: a move under the broker's own quota and under the sidecar's, and `status` during a move.

`recording` runs moves on real brokers, `drawing` draws what was recorded. Knows no figure by itself.
"""
