"""The sidecar's pages: metrics, health, the status page, and the quotas that are in force."""
