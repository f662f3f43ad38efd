"""Acting: what the decisions of `proxy.throttle` do to the bytes of one connection.

- **Leg** (`leg`): one of a connection's two sockets, non-blocking, waited for by Trio.
- **Window** (`window`): the part of a leg's stream that is in memory, in one reused buffer.
- **Requests** (`requests`): from the follower to the leader; decides, holds, answers.
- **Responses** (`responses`): from the leader to the follower; watches, appends replays, discards.
- **Connection** (`connection`): both together, their end and its one log line.

Record bytes stay in reused buffers and never become Python objects of their own.
"""
