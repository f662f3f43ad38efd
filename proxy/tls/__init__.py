"""Keys and certificates of a sidecar's connections, each leg by itself.

    who dials us ──▶ listen ─▶ sidecar ─▶ upstream ──▶ whom we dial

Nouns: a *leg* is one of `ingress.listen`, `ingress.upstream`, `egress.listen`, `egress.upstream`, as proxy.toml names
them. An *identity* is a key with its certificate, which a leg presents. After a *handshake* nothing here is
asked again: bytes are `proxy.relay.tls_socket`'s.

Invariant: no leg that is to be encrypted is ever plaintext, and whom a leg is to verify is verified: what does not
succeed ends its connection.
"""
