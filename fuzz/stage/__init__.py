"""The processes of a run: the sidecar that is attacked, the victim it relays, and the attackers' leader."""
