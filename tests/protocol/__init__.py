"""Tests of Kafka's wire format, against frames that Kafka's own classes wrote (golden/)."""
