"""A small laboratory: Kafka's replication on one machine, throttled by whom you like, measured.

Its nouns: a *cluster* of real *brokers* (`lab.cluster`), the *taps* that count what flows between them
(`lab.tap`), the *sidecars* that throttle it (`lab.sidecars`), and a *move* of partitions with its *result*
(`lab.moves`, carried out by `lab.mover`). `lab.embedded` needs none of this. The lab may know everything;
nothing else may know the lab. Nothing is imported here: the tap and the embedded brokers start without the
`lab` extra.
"""
