"""Edits quotas.toml in place: what a change asks for, whom it concerns, what goes first, what undoes it. Pure."""
