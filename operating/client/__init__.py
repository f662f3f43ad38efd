"""A client of a Kafka cluster, configured as Kafka's own tools are: client.properties, TLS, SASL, hosts."""
