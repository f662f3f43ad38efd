"""Client quotas on the shared listener: KIP-219, as a broker does it, in front of the broker.

The nouns: a *client quota* (`quotas.client_rates`) bounds one kind of *traffic* (Produce requests, Fetch responses) of
one *entity* (`quotas.client_entity`: a user, a client id or both, or a glob of them). All connections of an entity
share its *budget* (`budgets`). A connection whose entity is over quota is told so by `throttle_time_ms` and *muted*:
nothing is read from it for that time (`connection`). Its user is that accepted by the broker
(`authentication`). In a fetch session, requests that are answered here make the client's epoch run ahead of the
broker's (`session_epochs`). Where only reads behind the tail count, a link decides a consumer's Fetches as it does a
follower's, and nothing is muted (`catch_up`). `throttle` knows the quotas in force and which connections they are
for. `uplink` bounds all clients and all followers together.

An entity in debt holds the next request of each of its connections in a line (`entity`); answers settle what a request
was charged (`answers`). A connection on which a broker has accepted a replica's Fetch (`follower_proof`) is never held
up for what is not understood.

No I/O; time is an argument. `frames` reads the frames of a relayed connection, and is the only place where it meets all
this: `relay` knows it as `in_flight.ClientQuotas`.
"""
