"""The journal: metadata of replication, second by second, on disk.

- **Ledger** (`proxy.ledger`): sums up, in memory, the bytes of each second and partition; every fifteen seconds it
  has a *block* for each link. Pure.
- **Line** (`encoding`): one JSON object, as `journal_schema` declares it.
- **SegmentDirectory** (`segments`): the directory: names, remains of a crash, the cap on its size.
- **Segment** (`segments`): one gzip file, readable at any time up to its last flush.
- **Known quotas** (`writer`): the quotas that each file begins with, and changes that wait to be written.
- **Writer** (`writer`): a thread that takes batches from a bounded queue and keeps segments.
- **Recorder** (`recorder`): the part that Trio runs: once a second, from the ledger to the writer's queue.

Nothing here waits on the data path: events that cannot be queued are dropped and counted, but for a role's last quota.
"""
