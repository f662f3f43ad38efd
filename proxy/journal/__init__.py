"""The journal: what was replicated, second by second, as metadata on disk.

- **Ledger** (`proxy.ledger`): sums up, in memory, what each second brought of each partition; every fifteen seconds it
  has a *block* for each link. Pure.
- **Line** (`encoding`): one JSON object, as `journal_schema` declares it.
- **SegmentDirectory** (`segments`): the directory: names, what a crash left, the cap on its size.
- **Segment** (`segments`): one gzip file, readable at any time up to its last flush.
- **Known quotas** (`writer`): what each file says of the quotas first, and changes that wait to be written.
- **Writer** (`writer`): a thread that takes batches from a bounded queue and keeps segments.
- **Recorder** (`recorder`): the part that Trio runs: once a second, from the ledger to the writer's queue.

Nothing here waits on the data path: what cannot be queued is dropped and counted, but for a role's last quota.
"""
