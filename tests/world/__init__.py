"""A world in virtual time around the real relay: clusters that speak real frames, faults drawn from a seed, and judges.

    Scene      what there is: sidecars with their quotas, fetchers, clients, faults; a value
    World      a scene that runs: brokers ═ pipes ═ relay of each sidecar ═ pipes ═ brokers, on one clock
    Ledger     what the world itself saw pass, byte for byte
    judges     what must hold of every ledger, by arithmetic of their own

The relay, admission, client quotas, journal sums and figures are the product's. Sockets, files and threads are outside
of the world: listeners and dialling, epoll, TLS, HTTP, quotas.toml and overrides on disk, questions to brokers, and the
messages of a hand-over, whose values are inside.
"""
