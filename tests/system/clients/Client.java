import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What tests/system/clients/librdkafka.py does, by Kafka's own client: see there.
 *
 * Arguments: bootstrap.servers, topic, group.protocol ("classic", "consumer"), records of each transaction.
 */
public final class Client {
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final Set<String> seen = ConcurrentHashMap.newKeySet();

    final Properties common = new Properties();
    final String topic;
    final String protocol;
    final int count;
    volatile int committed;
    volatile boolean joined;

    Client(String[] args) {
        common.put("bootstrap.servers", args[0]);
        topic = args[1];
        protocol = args[2];
        count = Integer.parseInt(args[3]);
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client(args);
        for (String codec : CODECS) client.produce(codec);
        client.consumeTogether();
    }

    static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) line.append(word).append(' ');
        System.out.println(line.toString().strip());
    }

    static String digest(byte[] value) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value));
    }

    /** Half random, half a repeated word, of up to 4 kB: something to compress and something that cannot be. */
    byte[] value(String codec, int number) {
        Random random = new Random(codec.hashCode() * 1000003L + number);
        byte[] bytes = new byte[random.nextInt(4000) + 20];
        random.nextBytes(bytes);
        byte[] word = (codec + "-" + number + " ").getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < bytes.length / 2; i++) bytes[i] = word[i % word.length];
        return bytes;
    }

    void produce(String codec) throws Exception {
        Properties mine = new Properties();
        mine.putAll(common);
        mine.put("compression.type", codec);
        mine.put("transactional.id", topic + "-" + codec);
        mine.put("linger.ms", "5");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(mine, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int turn = 0; turn < 3; turn++) {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                List<String> digests = new ArrayList<>();
                for (int i = 0; i < count; i++) {
                    byte[] value = value(codec, turn * count + i);
                    digests.add(digest(value));
                    sent.add(producer.send(new ProducerRecord<>(topic, Integer.toString(i).getBytes(), value)));
                }
                for (Future<RecordMetadata> each : sent) each.get();
                boolean aborts = turn == 1;
                if (aborts) producer.abortTransaction();
                else producer.commitTransaction();
                if (!aborts) committed += count;
                for (String each : digests) say(aborts ? "aborted" : "committed", codec, each);
            }
        }
    }

    void consumeTogether() throws Exception {
        Thread first = new Thread(() -> consume("first"));
        Thread second = new Thread(() -> consume("second"));
        first.start();
        while (seen.size() < committed / 4) Thread.sleep(5);
        second.start();
        first.join();
        second.join();
    }

    void consume(String name) {
        Properties mine = new Properties();
        mine.putAll(common);
        mine.putAll(Map.of("group.id", topic + "-group", "group.protocol", protocol, "auto.offset.reset", "earliest",
            "isolation.level", "read_committed", "enable.auto.commit", "false", "max.poll.records", "10",
            "client.id", name));
        if (protocol.equals("classic")) mine.put("heartbeat.interval.ms", "200");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(mine, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    consumer.commitSync();
                }

                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    say("assigned", name, partitions.size());
                    if (name.equals("second") && !partitions.isEmpty()) joined = true;
                }
            });
            while (seen.size() < committed || !joined) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    if (seen.add(record.partition() + "@" + record.offset())) {
                        say("consumed", name, digest(record.value()));
                    }
                }
                consumer.commitSync();
                // The first leaves something for the second.
                if (!joined) Thread.sleep(50);
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
