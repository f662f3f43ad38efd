import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
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
 * Producers and consumers of users, and the broker's own quotas of them, as standard input asks for them.
 *
 * Arguments: bootstrap.servers of the plaintext listener and of the secured one, topic, folder of certificates. Commands, one a line; "-"
 * is no user or no client id, "default" the default entity:
 *
 *   scram USER                              let USER log in by SCRAM
 *   quota USER CLIENT RATE                  the broker's own producer and consumer quota of this entity; 0: take it back
 *   send USER MECHANISM CLIENT COUNT BYTES  records; "acked MILLISECONDS BYTES" for each, then "told MAX_MS" and
 *                                           "authenticated_again TIMES CLOSED_CONNECTIONS"
 *   read USER MECHANISM CLIENT COUNT        the same for a consumer: "read MILLISECONDS BYTES"
 *
 * Every password is "secret". MECHANISM "TLS": USER shows the certificate USER.pem. "done" ends the answer to each command.
 */
public final class Users {
    static String plaintext, secured, topic, keys;

    static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) line.append(word).append(' ');
        System.out.println(line.toString().strip());
    }

    public static void main(String[] args) throws Exception {
        plaintext = args[0];
        secured = args[1];
        topic = args[2];
        keys = args[3];
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "scram" -> scram(words[1]);
                case "quota" -> quota(words[1], words[2], Double.parseDouble(words[3]));
                case "send" -> send(client(words[1], words[2], words[3]), Integer.parseInt(words[4]), Integer.parseInt(words[5]));
                case "read" -> read(client(words[1], words[2], words[3]), Integer.parseInt(words[4]));
                default -> throw new IllegalArgumentException(line);
            }
            say("done");
        }
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", plaintext));
    }

    static void scram(String user) throws Exception {
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
        try (Admin admin = admin()) {
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, "secret"))).all().get();
        }
        Thread.sleep(1000);
    }

    static void quota(String user, String client, double rate) throws Exception {
        Map<String, String> entity = new HashMap<>();
        if (!user.equals("-")) entity.put(ClientQuotaEntity.USER, user.equals("default") ? null : user);
        if (!client.equals("-")) entity.put(ClientQuotaEntity.CLIENT_ID, client.equals("default") ? null : client);
        Double value = rate > 0 ? rate : null;
        try (Admin admin = admin()) {
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(
                new ClientQuotaAlteration.Op("producer_byte_rate", value),
                new ClientQuotaAlteration.Op("consumer_byte_rate", value))))).all().get();
        }
        Thread.sleep(700);
    }

    static Properties client(String user, String mechanism, String client) {
        Properties found = new Properties();
        found.put("client.id", client);
        found.put("bootstrap.servers", user.equals("-") ? plaintext : secured);
        if (user.equals("-")) return found;
        if (mechanism.equals("TLS")) {
            found.putAll(Map.of("security.protocol", "SSL", "ssl.keystore.type", "PEM", "ssl.keystore.location", keys + "/" + user + ".pem",
                "ssl.truststore.type", "PEM", "ssl.truststore.location", keys + "/ca.pem"));
            return found;
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        found.put("security.protocol", "SASL_PLAINTEXT");
        found.put("sasl.mechanism", mechanism);
        found.put("sasl.jaas.config", "org.apache.kafka.common.security." + module
            + " required username=\"" + user + "\" password=\"secret\";");
        return found;
    }

    static void send(Properties client, int count, int size) {
        client.put("acks", "all");
        // A request that waits at a muted connection until it should have authenticated again costs the connection, at brokers as well.
        client.put("max.in.flight.requests.per.connection", "1");
        client.put("batch.size", "200000");
        client.put("buffer.memory", "2000000");
        client.put("max.block.ms", "120000");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(client, new ByteArraySerializer(), new ByteArraySerializer());
        for (int i = 0; i < count; i++) {
            byte[] value = new byte[size];
            producer.send(new ProducerRecord<>(topic, 0, null, value), (found, error) -> {
                if (error == null) say("acked", System.currentTimeMillis(), value.length);
                else say("failed", error);
            });
        }
        producer.flush();
        sayMetrics(producer.metrics(), "produce-throttle-time-max");
        producer.close(Duration.ZERO);
    }

    static void read(Properties client, int count) {
        client.put("auto.offset.reset", "earliest");
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(client, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        for (int read = 0; read < count; ) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                read++;
                say("read", System.currentTimeMillis(), record.value().length);
            }
        }
        sayMetrics(consumer.metrics(), "fetch-throttle-time-max");
        consumer.close(Duration.ZERO);
    }

    static void sayMetrics(Map<MetricName, ? extends Metric> metrics, String throttle) {
        double most = 0, again = 0, closed = 0;
        for (var each : metrics.entrySet()) {
            String name = each.getKey().name();
            if (!(each.getValue().metricValue() instanceof Double value) || value.isNaN()) continue;
            if (name.equals(throttle)) most = Math.max(most, value);
            if (name.equals("successful-reauthentication-total")) again += value;
            if (name.equals("connection-close-total")) closed += value;
        }
        say("told", Math.round(most));
        say("authenticated_again", Math.round(again), Math.round(closed));
    }
}
