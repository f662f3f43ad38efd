"""Load on a cluster: topics filled fast, and producers whose latencies are kept."""
