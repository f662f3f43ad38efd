"""The encoding of every Kafka message: length prefix, header, types, and tables of fields that become Structs.

Must not know any one message's body.
"""
