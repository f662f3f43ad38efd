"""What a byte costs on its way from leader to follower: the sidecar beside the proxies people run.

A *load* is what one fetch brings; a *peer* is what stands in between; a *pair* is our own leader and follower, cheap
enough not to be what is measured; a *run* is one load through one peer for some seconds.
"""
