#!/bin/sh
# A broker as apache/kafka's image starts one: KAFKA_NODE_ID is node.id of its properties, CLUSTER_ID what its storage is
# formatted for, KAFKA_HEAP_OPTS the JVM's.
set -e
config=/tmp/server.properties
env | sed -n '/^KAFKA_HEAP_OPTS=/d; s/^KAFKA_//p' | while IFS= read -r line; do
  echo "$(echo "${line%%=*}" | tr A-Z_ a-z.)=${line#*=}"
done > $config
java="java $KAFKA_HEAP_OPTS -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData
  -Dlog4j.configuration=file:/opt/kafka/log4j.properties -cp /opt/kafka/libs/*"
# The class path's star is Java's.
set -f
[ -e "$KAFKA_LOG_DIRS/meta.properties" ] || $java kafka.tools.StorageTool format --cluster-id "$CLUSTER_ID" --config $config
exec $java kafka.Kafka $config
