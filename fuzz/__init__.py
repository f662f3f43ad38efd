"""Throws bytes at a running sidecar, with a victim beside it. **The victim never notices.**

- **victim**: a follower in sync and its leader, relayed by the sidecar under attack; every byte checked, every fetch
  timed.
- **control**: another victim, relayed by an idle sidecar at the same moment: what happens to both is the
  machine's doing.
- **case**: one hostile conversation, a function of seed, family and number. **family**: cases of one kind.
- **scene**: an attack that is no stream of bytes: files, signals, crowds.
- **mode**: the quotas and the journal of the sidecar that is attacked.
- **breach**: what the victim noticed; **finding**: a breach and what made it, kept in the corpus.

The sidecar is met as a user meets it, by command line, files, sockets and signals; nothing of `proxy` is imported.
"""
