"""The cost of a byte on its way from leader to follower: the sidecar beside other proxies.

A *load* is what one fetch brings. A *peer* is what stands between. A *pair* is our own leader and follower, which cost
so little that they are not what is measured. A *run* is one load through one peer for some seconds.
"""
