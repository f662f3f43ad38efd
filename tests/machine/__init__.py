"""Of what a machine needs."""
