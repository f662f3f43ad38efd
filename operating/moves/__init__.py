"""A move of partitions as an operator sees it: what it will take (`plan`), and whether it is done (`verify`).

The nouns: a `Cluster` answers what only brokers know, through kafka-python, which is imported when it is needed and not
before; a `MovePlan` is what a reassignment asks of brokers at which rates; a `Verification` is how far it has come and
which throttles are left behind. Asking and deciding are apart: everything but `cluster` and what it imports is pure.
"""
