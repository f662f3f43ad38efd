"""The sidecar's HTTP/1.1 server: six pages for Prometheus, probes, operators and their commands.

It stands apart from the relay: whatever comes over HTTP costs the connection that it came on, at most. Its nouns:

- a **connection** (`connection`) is one socket: requests in, answers out, each step within a bound (`Bounds`);
- a **route** (`routing`) is a method and a path with the handler that answers; **request** and **answer** are values;
- **trust** (`authorization`) is which names a browser may have reached us by, and from which pages it may change
  something;
- a **turn** (`loop_share`) is the right to work on the loop: in each turn of the loop, HTTP may work for half a
  millisecond;
- the **server** (`server`) accepts connections, and makes room where there are too many.

h11 reads and writes HTTP/1.1 without a socket: it is small, kept by Trio's own people, and knows neither HTTP/2 nor
websockets, which are not needed here. Routes are defined elsewhere (`observing.site`); nothing here knows Kafka.
"""
