"""Overrides: changes of quotas that commands make, in a layer above quotas.toml.

The nouns: an *override* (`Override`) has an id, an author and *changes*; each change sets one key at one *place*. The
*store* (`store`) keeps all overrides of a sidecar in one small file. `OverrideKeeper` is the running sidecar's owner of
both: whatever it acknowledges is on disk and in force.
"""
