"""Kafka's wire format as values. Sans-I/O: nothing here knows a socket, a clock or a throttle.

- **wire**: what every message shares. Lengths (`framing`), the header (`headers`), which request a response answers
  (`correlation`), types (`primitives`, `topics`), and tables of fields with version ranges, which become one Construct
  Struct per version (`layout`).
- **walkers**: flat parsers generated from those Structs, for streams and the data path.
- **fetch**: the tables of Fetch, the only place where its format is written down (`tables`); its walkers (`walker`);
  requests with partitions taken out (`request`), responses with partitions added (`response`).
- **session**: a follower's fetch sessions, translated into the sidecar's own at the leader.
- **metadata**, **own_requests**: what the sidecar itself asks brokers. **kafka_json**: frames as Kafka's own tools
  print them.

Each folder imports those above it alone. Any input yields a value or `errors.ProtocolError`, nothing else.
"""
