"""Facts about the cluster, as brokers told them, for both roles: names of topic ids, racks, partitions that lack
replicas.

`proxy.cluster` asks the brokers, `proxy.throttle` decides by their answers. Pure.
"""
