import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A consumer that reads one partition at its tail, and resumes many others after an outage, all on one connection, as a mirror does. Beside
 * it another consumer reads the tail alone: it waits for the same broker and the same garbage collections, but for no quota.
 *
 * Arguments: bootstrap.servers, topic, client.id, partitions that are behind, records in each, bytes of a record, seconds at the tail
 * alone. Partition 0 is read at the tail: a producer writes to it every 5 ms. Every line on standard output is an event:
 *
 *     alone NS             a record of the tail, from when it was sent until it came, before the others resume
 *     beside NS            the same while they catch up
 *     onlooker NS          the same, by the consumer that reads nothing else
 *     behind MS BYTES      what one poll brought of the others, at this time
 *     wrong WHAT           a record was lost or came twice
 *     done
 */
public final class Mirror {
    static volatile boolean stops, resumed;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int behind = Integer.parseInt(args[3]), count = Integer.parseInt(args[4]), size = Integer.parseInt(args[5]);
        Properties common = new Properties();
        common.put("bootstrap.servers", args[0]);
        Properties writes = new Properties();
        writes.putAll(common);
        writes.putAll(Map.of("client.id", "writer", "batch.size", "100000", "linger.ms", "20"));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writes, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < count; i++)
                for (int partition = 1; partition <= behind; partition++)
                    producer.send(new ProducerRecord<>(topic, partition, null, new byte[size]));
            producer.flush();
        }
        writes.put("linger.ms", "0");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writes, new ByteArraySerializer(), new ByteArraySerializer())) {
            Thread live = new Thread(() -> {
                while (!stops) {
                    producer.send(new ProducerRecord<>(topic, 0, null, Long.toString(System.nanoTime()).getBytes()));
                    try { Thread.sleep(5); } catch (InterruptedException error) { return; }
                }
            });
            Thread onlooker = new Thread(() -> lookOn(common, topic));
            live.start();
            onlooker.start();
            try {
                consume(common, topic, args[2], behind, (long) behind * count, Integer.parseInt(args[6]));
            } finally {
                stops = true;
                live.join();
                onlooker.join();
            }
        }
        System.out.println("done");
    }

    static void lookOn(Properties common, String topic) {
        Properties reads = new Properties();
        reads.putAll(common);
        reads.putAll(Map.of("client.id", "onlooker", "enable.auto.commit", "false"));
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reads, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition tail = new TopicPartition(topic, 0);
            consumer.assign(List.of(tail));
            consumer.seekToEnd(List.of(tail));
            while (!stops)
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100)))
                    if (resumed) System.out.println("onlooker " + (System.nanoTime() - Long.parseLong(new String(record.value()))));
        }
    }

    static void consume(Properties common, String topic, String who, int behind, long expected, int seconds) {
        Properties reads = new Properties();
        reads.putAll(common);
        reads.putAll(Map.of("client.id", who, "max.poll.records", "100000", "enable.auto.commit", "false"));
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reads, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition tail = new TopicPartition(topic, 0);
            List<TopicPartition> others = new ArrayList<>(), all = new ArrayList<>();
            for (int partition = 1; partition <= behind; partition++) others.add(new TopicPartition(topic, partition));
            all.add(tail);
            all.addAll(others);
            consumer.assign(all);
            consumer.pause(others);
            consumer.seekToBeginning(others);
            consumer.seekToEnd(List.of(tail));
            Map<Integer, Long> next = new HashMap<>();
            long read = 0, began = System.nanoTime(), settles = began + 1_000_000_000L, resumes = settles + seconds * 1_000_000_000L;
            while (read < expected) {
                if (!resumed && System.nanoTime() > resumes) {
                    consumer.resume(others);
                    resumed = true;
                }
                long bytes = 0;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    long now = System.nanoTime(), offset = record.offset();
                    Long wanted = next.put(record.partition(), offset + 1);
                    if (wanted != null ? wanted != offset : record.partition() > 0 && offset != 0)
                        System.out.println("wrong " + record.partition() + ": offset " + offset + ", expected " + wanted);
                    if (record.partition() > 0) {
                        read++;
                        bytes += record.serializedValueSize();
                    } else if (now > settles) {
                        System.out.println((resumed ? "beside " : "alone ") + (now - Long.parseLong(new String(record.value()))));
                    }
                }
                if (bytes > 0) System.out.println("behind " + System.currentTimeMillis() + " " + bytes);
            }
        }
    }
}
