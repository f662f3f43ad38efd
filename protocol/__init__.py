"""Kafka's wire format as values. Sans-I/O: nothing here knows a socket, a clock or a throttle.

- **Layout** (`layout`, `primitives`): a table of fields with version ranges; one Construct Struct per version.
- **Header, Fetch** (`headers`, `fetch`): those tables. The only place where the wire format is written down.
- **Walker** (`walker`, `walker_compiler`, `walker_rows`): a flat parser generated from the Structs, for streams and the
  data path. What does not fit its strokes is read field by field (`stepwise`).
- **Request, response** (`fetch_request`, `fetch_response`): taking partitions out of one, adding entries to the other.
- **Topic block** (`topic_blocks`): a topic and its partitions, as either is written.
- **Metadata** (`metadata`): which topic id is which name.
- **Correlator** (`correlation`): which request a response answers.
- **Framing** (`framing`): the length prefix, checked before anything is allocated.
- **JSON** (`kafka_json`): frames as Kafka's own tools print them.

Any input yields a value or `errors.ProtocolError`, nothing else.
"""
