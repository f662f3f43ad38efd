import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a share group (KIP-932) that reads a topic from its beginning.
 *
 * Arguments: bootstrap.servers, topic, client.id, records. Says `read MS BYTES PARTITION@OFFSET DELIVERY` of each record, and at the end
 * `throttled MAX_MS`.
 */
public final class ShareReader {
    public static void main(String[] args) throws Exception {
        Properties common = new Properties();
        common.put("bootstrap.servers", args[0]);
        common.put("client.id", args[2]);
        common.put("group.id", args[1]);
        try (Admin admin = Admin.create(common)) {
            var group = new ConfigResource(ConfigResource.Type.GROUP, args[1]);
            var earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(java.util.Map.of(group, List.of(earliest))).all().get();
        }
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(common, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            for (int read = 0; read < Integer.parseInt(args[3]); ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    read++;
                    System.out.println("read " + System.currentTimeMillis() + " " + record.value().length + " " + record.partition() + "@"
                        + record.offset() + " " + record.deliveryCount().orElse((short) 1));
                }
            }
            double most = 0;
            for (var each : consumer.metrics().entrySet())
                if (each.getKey().name().equals("fetch-throttle-time-max") && each.getValue().metricValue() instanceof Double value
                        && !value.isNaN()) most = Math.max(most, value);
            System.out.println("throttled " + Math.round(most));
        }
    }
}
