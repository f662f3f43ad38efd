"""A .deb and an .rpm for hosts without containers: the sidecar, its manual pages, systemd units. `make packages`."""
