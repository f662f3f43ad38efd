"""All sidecars of a cluster at once: which there are, what a change touches at each, writing it everywhere or nowhere.

The nouns: a *fleet* (`file.Fleet`) is what fleet.toml lists, its *members* (`file.Member`) are sidecars; a *store*
(`stores`) is where quotas are kept, a file or a ConfigMap, which several members may share. Blocking; for commands.
"""
