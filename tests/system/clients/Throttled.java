import java.time.Duration;
import java.util.HexFormat;
import java.security.MessageDigest;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer, then a consumer, of a client id that may have a quota: what they carried, when, and what they were told.
 *
 * Arguments: bootstrap.servers, topic, client.id, records of 100 kB, bytes per second of the broker's own quota of this client (0: none
 * is set). Every line on standard output is an event: `acked|read MILLISECONDS BYTES SHA256`, `throttled producer|consumer MAX_MS`,
 * `closed producer|consumer COUNT` (connections that were closed before the client closed them).
 */
public final class Throttled {
    static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) line.append(word).append(' ');
        System.out.println(line.toString().strip());
    }

    static String digest(byte[] value) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value));
    }

    static void sayMetrics(String who, Map<MetricName, ? extends Metric> metrics, String throttle) {
        double most = 0, closed = 0;
        for (var each : metrics.entrySet()) {
            if (!(each.getValue().metricValue() instanceof Double value) || value.isNaN()) continue;
            if (each.getKey().name().equals(throttle)) most = Math.max(most, value);
            if (each.getKey().name().equals("connection-close-total")) closed += value;
        }
        say("throttled", who, Math.round(most));
        say("closed", who, Math.round(closed));
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1], clientId = args[2];
        int count = Integer.parseInt(args[3]);
        double quota = Double.parseDouble(args[4]);
        Properties common = new Properties();
        common.put("bootstrap.servers", args[0]);
        if (quota > 0) setQuota(common, clientId, quota);
        common.put("client.id", clientId);
        produce(common, topic, count);
        consume(common, topic, count);
    }

    static void setQuota(Properties common, String clientId, double quota) throws Exception {
        try (Admin admin = Admin.create(common)) {
            ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, clientId));
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(
                new ClientQuotaAlteration.Op("producer_byte_rate", quota),
                new ClientQuotaAlteration.Op("consumer_byte_rate", quota))))).all().get();
        }
        Thread.sleep(1000);
    }

    static void produce(Properties common, String topic, int count) throws Exception {
        Properties mine = new Properties();
        mine.putAll(common);
        mine.put("acks", "all");
        mine.put("batch.size", "200000");
        mine.put("buffer.memory", "2000000");
        mine.put("max.block.ms", "120000");
        Random random = new Random(1);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(mine, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < count; i++) {
                byte[] value = new byte[100_000];
                random.nextBytes(value);
                String digest = digest(value);
                producer.send(new ProducerRecord<>(topic, 0, null, value), (found, error) -> {
                    if (error == null) say("acked", System.currentTimeMillis(), value.length, digest);
                    else say("failed", error);
                });
            }
            producer.flush();
            sayMetrics("producer", producer.metrics(), "produce-throttle-time-max");
        }
    }

    static void consume(Properties common, String topic, int count) throws Exception {
        Properties mine = new Properties();
        mine.putAll(common);
        mine.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(mine, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            for (int read = 0; read < count; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    read++;
                    say("read", System.currentTimeMillis(), record.value().length, digest(record.value()));
                }
            }
            sayMetrics("consumer", consumer.metrics(), "fetch-throttle-time-max");
        }
    }
}
