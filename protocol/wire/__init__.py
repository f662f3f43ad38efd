"""How every Kafka message is written: length prefix, header, types, and tables of fields that become Structs.

Must not know any one message's body.
"""
