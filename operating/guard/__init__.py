"""A broker's traffic is led around a sidecar that does not answer, and back through it when it does.

decision    pure: answers and the time in, a change of the way out
ways        pure: which addresses lead to the sidecar, and where they lead around it
rules       pure: the same as text for iptables-restore, in chains of its own
kernel      runs iptables
refusals    pure: when what iptables refused is tried again, and when that is told
reporting   the log's lines, and a file for node_exporter's textfile collector
guarding    asks, decides, changes, reports; undoes at the end
"""
