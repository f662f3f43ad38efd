"""What the sidecar says of itself over HTTP: metrics, health, the status page, and the quotas that are in force."""
