"""What brokers have told of their cluster, for both roles: names of topic ids, racks, partitions that lack replicas.

`proxy.cluster` asks the brokers, `proxy.throttle` decides by what they said. Pure.
"""
