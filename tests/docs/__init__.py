"""The documents: what they show works as shown."""
