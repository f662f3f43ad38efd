"""What a byte costs on its way from leader to follower: the sidecar beside the proxies people run.

A *load* is what one fetch brings. A *peer* is what stands between. A *pair* is our own leader and follower, which cost
so little that they are not what is measured. A *run* is one load through one peer for some seconds.
"""
