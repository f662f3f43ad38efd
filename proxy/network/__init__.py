"""Connections before they are relayed: listening, accepting, redirected destinations, names of hosts and brokers."""
