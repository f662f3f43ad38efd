"""A move of partitions as an operator sees it: what it will take (`plan`), whether it is done (`verify`), and both with
all that is between them (`move`).

The nouns: a `Cluster` answers what only brokers know, through kafka-python, which is imported when it is needed and not
before; a `MovePlan` has the bytes and rates of each broker; a `Verification` is how far it has come and
which throttles are left behind; a `Step` is the next thing to do, found anew from the answers of cluster and sidecars.
Asking and deciding are apart: `cluster`, `inspection`, `applying` and `moving` ask and act, everything else is pure.
"""
