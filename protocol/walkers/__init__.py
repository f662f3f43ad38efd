"""Flat, resumable parsers of messages that are long lists of partitions, generated from the messages' Structs.

**Why.** Plain Construct takes 7 to 26 microseconds a partition, and needs all bytes of a message, records included. A
walker takes 0.2 to 0.7, wants no byte of the records, and stops wherever the bytes that are there end.

**How.** All that is plain and whole in the buffer is read at one stroke: the fields of a partition by one unpack, and
the first partition of a topic together with the topic's name, because many topics have no other. What a stroke takes
for granted (a length of one byte, an empty array, no tagged fields) it checks in what it unpacked. Where that does not
hold, and at the end of the buffer, `stepwise` reads the same fields one at a time: a few partitions in a thousand.
Partitions without records are of one size in their usual shape, so those that follow each other are read by one
iter_unpack: all of a request, and what brings nothing in an answer. That takes 0.6 to 0.8 of the time of one by one.

    Struct ──entry──▶ which unpack, and when it is right ──rows, compiler──▶ a function
                                                                    └── stepwise, for all else

Everything is derived from the Structs, so the wire format is written once; tests hold walkers equal to plain Construct
on Kafka's own frames and on made-up ones, whole, in pieces and damaged. `compiler.walker_source` shows what is run.

**Why generated.** Loops written by hand for the same strokes were measured beside these (CPU time of the thread, taken
in turns, ratios to the generated ones): 1.03 to 1.16 times as long for answers of 1000 partitions of 10 KB before v12,
1.2 from v12 on, 1.1 to 1.2 for answers of one partition before v12, 1.2 to 1.3 where each of 1000 topics has one
partition. What a hand-written loop must ask for every partition (is the version flexible, has it log start offsets)
the generator asks once. Loops that matched the generated ones repeated each other in every family of versions, and
were no shorter than the generator.

**Protocol of a walker.** `fetch.walker.response_walker(version)` is one::

    steps = walk(buffer, limit, emit, head)  # limit: bytes of the whole body, a frame's size less its header's
    next(steps)  # primes it; what it yields means nothing
    at = steps.send((pos, end))  # the next byte of the body is buffer[pos]; valid bytes end at end

Each ``at`` that comes back says: everything before ``at`` is done with, and more bytes are needed from ``at`` on.
``at`` may lie beyond ``end``: the surplus is bytes (records) that need not be looked at. The caller may move or
overwrite what the buffer held before ``at``, read more, and sends where ``at`` now is and where valid bytes end. These
may be the same position, or one in the next frame: a walker never looks past its own body. When the body is done,
``StopIteration.value`` is the position after it, beyond ``end`` if its last records are not all there; the caller
compares it with the end of the frame. At most LARGEST_WAIT_BYTES from ``at`` on are needed at once.

A body that is all there is read without steps, which cost as much as a partition or two::

    at = walk.at_once(buffer, pos, end, emit, head)  # the body begins at pos, and end is where it should end

``emit`` gets one row per partition, as soon as the place and the size of its records are known and before they are
stepped over. Positions in a row are positions in the buffer at that moment. If the buffer was moved since the
partition's entry began (only aborted transactions make that possible), ``entry_at`` is where the entry would begin now,
perhaps below 0: ``records_at - entry_at`` is right in every case.

``head`` gets, by field name, the numbers that stand before the topics. Of a request it also gets
``forgotten_topics_data``, a list of (topic, partitions, …), the bytes of the request's tagged fields, at TAGS, and
those of its topics, at BLOCK_TAGS, by topic, where a topic has any. ``NAME_end`` is where top-level field NAME ended,
in the buffer as it was then, for every field from the topics on.

What is stepped over is measured, not read: that rack_id is not UTF-8, or that a tagged field does not hold what it
should, only plain Construct says.

Must not know any message. Invariant: nothing at or beyond ``end`` is read; a count or length that the rest of the body
cannot hold raises ProtocolError when it is read, before anything is done so many times.
"""
