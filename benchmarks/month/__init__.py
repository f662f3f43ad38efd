"""A month of a hundred brokers that never was: what happens, the journals that their sidecars write of it, the truth.

`python -m benchmarks.month journals FOLDER` writes journals with the sidecar's own ledger and files, and `truth.json`;
`python -m benchmarks.month jobs FOLDER` has the pipeline's jobs at them, one after the other, and holds what they say
against the truth. The nouns: an *outage* is the time that a link's replicas are behind, because a broker was away or a
partition is new there. Nothing is random but by the seed.
"""
