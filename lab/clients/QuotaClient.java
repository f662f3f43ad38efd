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
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/**
 * Producers of several codecs at the same time, each with transactions and a client id of its own; then a consumer group of two.
 *
 * Arguments: bootstrap.servers, topic, what client ids begin with, codecs by commas, records of each transaction, bytes of a record,
 * batch.size, request.timeout.ms. Codec n produces to partition n three transactions, the second of which is aborted. The second
 * consumer joins when a quarter is read. Every line on standard output is an event:
 *
 *     acked CLIENT MS BYTES                 a record, when the leader has answered
 *     committed|aborted CLIENT MS SHA256    a record, when its transaction has ended
 *     read CLIENT MS BYTES SHA256           a record, once for each time that it comes
 *     assigned CLIENT MS COUNT              so many partitions, after a rebalance
 *     lost CLIENT MS                        its partitions, without having been asked
 *     failed CLIENT MS WHAT                 a request or record, for good or to be tried again
 *     retried CLIENT MS WHY                 a batch, because of this error
 *     metrics CLIENT THROTTLE_MAX LATENCY_AVG LATENCY_MAX CLOSED            at its end; times in ms
 */
public final class QuotaClient {
    static final int TRANSACTIONS = 3;
    static final Pattern RETRY = Pattern.compile("clientId=([^,\\]]+).* retrying .* Error: (\\w+)");
    static final Set<String> seen = ConcurrentHashMap.newKeySet();
    static volatile boolean joined;
    static volatile int committed;

    final Properties common = new Properties();
    final String topic, prefix;
    final int count, size, batch;

    QuotaClient(String[] args) {
        common.put("bootstrap.servers", args[0]);
        common.put("request.timeout.ms", args[7]);
        topic = args[1];
        prefix = args[2];
        count = Integer.parseInt(args[4]);
        size = Integer.parseInt(args[5]);
        batch = Integer.parseInt(args[6]);
    }

    public static void main(String[] args) throws Exception {
        QuotaClient client = new QuotaClient(args);
        sayRetries();
        String[] codecs = args[3].split(",");
        List<Callable<Void>> producers = new ArrayList<>();
        for (int i = 0; i < codecs.length; i++) {
            int partition = i;
            producers.add(() -> client.produce(codecs[partition], partition));
        }
        runAll(producers);
        committed = codecs.length * (TRANSACTIONS - 1) * client.count;
        runAll(List.of(() -> client.consume("first"), () -> {
            while (seen.size() < committed / 4) Thread.sleep(5);
            return client.consume("second");
        }));
    }

    /** Producers say only in their log why they send a batch again. */
    static void sayRetries() {
        Logger log = Logger.getLogger("org.apache.kafka.clients.producer.internals.Sender");
        log.setLevel(Level.WARN);
        log.addAppender(new AppenderSkeleton() {
            protected void append(LoggingEvent event) {
                Matcher found = RETRY.matcher(event.getRenderedMessage());
                if (found.find()) say("retried", found.group(1), now(), found.group(2));
            }

            public void close() {}

            public boolean requiresLayout() {
                return false;
            }
        });
    }

    static void runAll(List<Callable<Void>> tasks) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks.size());
        try {
            for (Future<Void> each : threads.invokeAll(tasks)) each.get();
        } finally {
            threads.shutdown();
        }
    }

    static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) line.append(word.toString().replace('\n', ' ')).append(' ');
        System.out.println(line.toString().strip());
    }

    static String digest(byte[] value) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value));
    }

    static long now() {
        return System.currentTimeMillis();
    }

    /** The request metrics of a client, of all its nodes. */
    static void sayMetrics(String who, Map<MetricName, ? extends Metric> metrics, String kind) {
        double throttle = 0, average = 0, latency = 0, closed = 0;
        for (var each : metrics.entrySet()) {
            if (!(each.getValue().metricValue() instanceof Double value) || value.isNaN()) continue;
            String name = each.getKey().name();
            if (name.equals(kind + "-throttle-time-max")) throttle = Math.max(throttle, value);
            if (name.equals(kind.equals("produce") ? "request-latency-avg" : "fetch-latency-avg")) average = Math.max(average, value);
            if (name.equals(kind.equals("produce") ? "request-latency-max" : "fetch-latency-max")) latency = Math.max(latency, value);
            if (name.equals("connection-close-total")) closed += value;
        }
        say("metrics", who, Math.round(throttle), Math.round(average), Math.round(latency), Math.round(closed));
    }

    Void produce(String codec, int partition) throws Exception {
        String who = prefix + codec;
        Properties mine = new Properties();
        mine.putAll(common);
        mine.putAll(Map.of("client.id", who, "transactional.id", topic + who, "compression.type", codec, "batch.size",
            Integer.toString(batch), "buffer.memory", Integer.toString(10 * Math.max(batch, size)), "max.block.ms", "120000"));
        Random random = new Random(partition);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(mine, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int turn = 0; turn < TRANSACTIONS; turn++) {
                producer.beginTransaction();
                List<String> digests = new ArrayList<>();
                for (int i = 0; i < count; i++) {
                    byte[] value = new byte[size];
                    random.nextBytes(value);
                    digests.add(digest(value));
                    producer.send(new ProducerRecord<>(topic, partition, null, value), (found, error) -> {
                        if (error == null) say("acked", who, now(), size);
                        else say("failed", who, now(), error);
                    });
                }
                producer.flush();
                boolean aborts = turn == 1;
                if (aborts) producer.abortTransaction();
                else producer.commitTransaction();
                for (String each : digests) say(aborts ? "aborted" : "committed", who, now(), each);
            }
            sayMetrics(who, producer.metrics(), "produce");
        }
        return null;
    }

    Void consume(String name) throws Exception {
        String who = prefix + name;
        Properties mine = new Properties();
        mine.putAll(common);
        mine.putAll(Map.of("client.id", who, "group.id", topic, "isolation.level", "read_committed", "auto.offset.reset", "earliest",
            "enable.auto.commit", "false"));
        mine.put("heartbeat.interval.ms", "200");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(mine, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    consumer.commitSync();
                }

                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    say("lost", who, now());
                }

                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    say("assigned", who, now(), partitions.size());
                    if (name.equals("second") && !partitions.isEmpty()) joined = true;
                }
            });
            while (seen.size() < committed || !joined) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    seen.add(record.partition() + "@" + record.offset());
                    say("read", who, now(), record.value().length, digest(record.value()));
                }
            }
            consumer.commitSync();
            sayMetrics(who, consumer.metrics(), "fetch");
        }
        return null;
    }
}
