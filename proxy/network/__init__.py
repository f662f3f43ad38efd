"""Who is dialled and who dials: listeners, accepted and redirected connections, names of hosts, brokers and topics."""
