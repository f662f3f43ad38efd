"""A broker's traffic is led around a sidecar that does not answer, and back through it when it does.

decision    pure: answers and the time in, a change of the way out
ways        pure, but for names: which addresses lead to the sidecar, and where they lead around it
rules       pure: the same as text for iptables-restore, in chains of its own
kernel      runs iptables, and switches on route_localnet where ways need it
rule_keeper keeps the wanted rules in force, and retries those that iptables refused
probing     asks the sidecar whether it is alive, and tries the ways by connections through them
resets      closes connections that wait for a sidecar that stands still
reporting   the log's lines, and a file for node_exporter's textfile collector
guarding    asks, decides, changes, proves, reports; undoes at the end
"""
