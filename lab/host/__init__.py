"""The machine under a cluster: addresses, child processes, and network namespaces."""
