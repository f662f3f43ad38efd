// Writes Kafka frames (length prefix not included) with Kafka's own classes, and what Kafka's own JSON converters say of them.
// Usage: java -cp '<kafka>/libs/*' GoldenFrames.java OUTPUT_DIRECTORY

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.message.FetchRequestData.FetchPartition;
import org.apache.kafka.common.message.FetchRequestData.FetchTopic;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.message.FetchResponseData.FetchableTopicResponse;
import org.apache.kafka.common.message.FetchResponseData.PartitionData;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.AppInfoParser;

public class GoldenFrames {
    static final short LAST_FETCH = 6;
    static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    static Path directory;
    static final List<String> expected = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        directory = Path.of(args[0]);
        Files.createDirectories(directory.resolve("frames"));
        for (short version = 0; version <= LAST_FETCH; version++) {
            fetchRequests(version);
            fetchResponses(version);
        }
        Files.write(directory.resolve("fetch.jsonl"), expected);
        expected.clear();
        heads();
        Files.write(directory.resolve("heads.jsonl"), expected);
        headerVersions();
        System.out.println("kafka-clients " + AppInfoParser.getVersion());
    }

    static void fetchRequests(short version) throws IOException {
        request(version, "consumer-one", "consumer-group-1", fetch(-1, version, topic("orders", fetched(0, 42))));
        request(version, "replica-two", "broker-102-fetcher-0",
            fetch(102, version, topic("orders", fetched(0, 0), fetched(7, 123456789012L))));
        request(version, "replica-no-topics", "broker-102-fetcher-0", fetch(102, version));
        request(version, "replica-empty-topic", "broker-102-fetcher-0",
            fetch(102, version, topic("empty"), topic("orders", fetched(1, 2)), topic("orders", fetched(0, 1))));
        request(version, "replica-unicode", null, fetch(2147483647, version, topic("Straße-κάφκα-😀", fetched(3, 9))));
        List<FetchTopic> many = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            FetchPartition[] partitions = new FetchPartition[10];
            for (int p = 0; p < partitions.length; p++) partitions[p] = fetched(p, 1000L * t + p);
            many.add(topic("topic-" + t, partitions));
        }
        request(version, "replica-many", "ReplicaFetcherThread-0-101", fetch(102, version, many.toArray(new FetchTopic[0])));
    }

    static FetchRequestData fetch(int replica, short version, FetchTopic... topics) {
        FetchRequestData data = new FetchRequestData().setReplicaId(replica).setMaxWaitMs(500).setMinBytes(1);
        data.setTopics(new ArrayList<>(List.of(topics)));
        if (version >= 3) data.setMaxBytes(10485760);
        if (version >= 4) data.setIsolationLevel((byte) (replica < 0 ? 1 : 0));
        if (version >= 5)
            for (FetchTopic topic : topics)
                for (FetchPartition partition : topic.partitions())
                    partition.setLogStartOffset(replica < 0 ? -1 : partition.fetchOffset() / 2);
        return data;
    }

    static FetchTopic topic(String name, FetchPartition... partitions) {
        return new FetchTopic().setTopic(name).setPartitions(new ArrayList<>(List.of(partitions)));
    }

    static FetchPartition fetched(int partition, long offset) {
        return new FetchPartition().setPartition(partition).setFetchOffset(offset).setPartitionMaxBytes(1048576 + partition);
    }

    static void request(short version, String name, String clientId, FetchRequestData body) throws IOException {
        RequestHeaderData header = header(ApiKeys.FETCH, version, clientId, 1000 + version);
        ObjectNode line = write("fetch-request-v" + version + "-" + name, "request", header, ApiKeys.FETCH, version, body);
        line.set("body", FetchRequestDataJsonConverter.write(body, version, false));
        expected.add(text(line));
    }

    static void fetchResponses(short version) throws IOException {
        byte magic = (byte) (version < 2 ? 0 : version < 4 ? 1 : 2);
        response(version, "one", answer(answers("orders", answered(0, version, 100, records(magic, 1, 10)))));
        response(version, "two", answer(answers("orders",
            answered(0, version, 100, records(magic, 3, 100)), answered(7, version, 123456789012L, records(magic, 1, 1)))));
        response(version, "empty-records", answer(
            answers("a", answered(0, version, 5, MemoryRecords.EMPTY)), answers("b", answered(1, version, 6, MemoryRecords.EMPTY))));
        response(version, "null-records", answer(answers("a",
            answered(0, version, 5, null), answered(1, version, 5, records(magic, 1, 5)), answered(2, version, 5, null))));
        response(version, "error", answer(answers("a",
            answered(0, version, -1, MemoryRecords.EMPTY).setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code()))));
        response(version, "no-topics", answer().setThrottleTimeMs(version >= 1 ? 250 : 0));
        response(version, "empty-topic", answer(answers("empty"), answers("Straße-κάφκα-😀", answered(3, version, 9, records(magic, 2, 7)))));
        List<FetchableTopicResponse> many = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            PartitionData[] partitions = new PartitionData[10];
            for (int p = 0; p < partitions.length; p++)
                partitions[p] = answered(p, version, 1000L * t + p, p % 3 == 0 ? records(magic, 1, p) : MemoryRecords.EMPTY);
            many.add(answers("topic-" + t, partitions));
        }
        response(version, "many", answer(many.toArray(new FetchableTopicResponse[0])));
        if (version >= 4)
            response(version, "aborted", answer(answers("tx",
                answered(0, version, 50, records(magic, 2, 20)).setAbortedTransactions(List.of(
                    new AbortedTransaction().setProducerId(4000).setFirstOffset(17),
                    new AbortedTransaction().setProducerId(Long.MAX_VALUE).setFirstOffset(0))),
                answered(1, version, 50, MemoryRecords.EMPTY).setAbortedTransactions(List.of()))));
    }

    static FetchResponseData answer(FetchableTopicResponse... topics) {
        return new FetchResponseData().setResponses(new ArrayList<>(List.of(topics)));
    }

    static FetchableTopicResponse answers(String name, PartitionData... partitions) {
        return new FetchableTopicResponse().setTopic(name).setPartitions(new ArrayList<>(List.of(partitions)));
    }

    static PartitionData answered(int partition, short version, long highWatermark, MemoryRecords records) {
        PartitionData data = new PartitionData().setPartitionIndex(partition).setHighWatermark(highWatermark).setRecords(records);
        data.setAbortedTransactions(null);
        if (version >= 4) data.setLastStableOffset(highWatermark - 1);
        if (version >= 5) data.setLogStartOffset(highWatermark / 10);
        return data;
    }

    static MemoryRecords records(byte magic, int count, int valueBytes) {
        SimpleRecord[] records = new SimpleRecord[count];
        for (int i = 0; i < count; i++)
            records[i] = new SimpleRecord(1700000000000L + i, null, "x".repeat(valueBytes).getBytes(StandardCharsets.UTF_8));
        return MemoryRecords.withRecords(magic, 40, Compression.NONE, records);
    }

    static void response(short version, String name, FetchResponseData body) throws IOException {
        ByteBuffer frame = serialize(new ResponseHeaderData().setCorrelationId(2000 + version), (short) 0, body, version);
        String file = save("fetch-response-v" + version + "-" + name, frame);
        ObjectNode line = line(file, "response", ApiKeys.FETCH.id, version, 2000 + version, null);
        line.set("body", FetchResponseDataJsonConverter.write(body, version, false));
        expected.add(text(line));
    }

    static void heads() throws IOException {
        head("sasl-handshake-v0", ApiKeys.SASL_HANDSHAKE, 0, "broker-1", new SaslHandshakeRequestData().setMechanism("PLAIN"));
        head("sasl-handshake-v1", ApiKeys.SASL_HANDSHAKE, 1, "broker-1", new SaslHandshakeRequestData().setMechanism("GSSAPI"));
        head("sasl-authenticate-v2", ApiKeys.SASL_AUTHENTICATE, 2, "broker-1", new SaslAuthenticateRequestData().setAuthBytes(new byte[] {0, 'u', 0, 'p'}));
        head("controlled-shutdown-v0", ApiKeys.CONTROLLED_SHUTDOWN, 0, null, new ControlledShutdownRequestData().setBrokerId(101));
        head("controlled-shutdown-v1", ApiKeys.CONTROLLED_SHUTDOWN, 1, "101", new ControlledShutdownRequestData().setBrokerId(101));
        head("controlled-shutdown-v3", ApiKeys.CONTROLLED_SHUTDOWN, 3, "101", new ControlledShutdownRequestData().setBrokerId(101).setBrokerEpoch(7));
        head("api-versions-v0", ApiKeys.API_VERSIONS, 0, "producer-1", new ApiVersionsRequestData());
        head("api-versions-v3", ApiKeys.API_VERSIONS, 3, "Größe", new ApiVersionsRequestData().setClientSoftwareName("lib").setClientSoftwareVersion("1"));
        head("metadata-v12-null-client", ApiKeys.METADATA, 12, null, new MetadataRequestData());
        head("offset-for-leader-epoch-v4", ApiKeys.OFFSET_FOR_LEADER_EPOCH, 4, "broker-1-fetcher-0", new OffsetForLeaderEpochRequestData());
        head("fetch-v12", ApiKeys.FETCH, 12, "broker-1-fetcher-0", new FetchRequestData().setReplicaId(102));
        head("fetch-v17", ApiKeys.FETCH, 17, "broker-1-fetcher-0", new FetchRequestData());
        for (int version : new int[] {0, 2, 3, 8, 9, 11})
            for (short acks : new short[] {0, 1, -1})
                for (String transaction : version < 3 ? new String[] {null} : new String[] {null, "tx-1"}) {
                    ProduceRequestData body = new ProduceRequestData().setAcks(acks).setTimeoutMs(30000).setTransactionalId(transaction);
                    String name = "produce-v" + version + "-acks" + acks + (transaction == null ? "" : "-transaction");
                    ObjectNode line = headLine(name, ApiKeys.PRODUCE, version, "producer-1", body);
                    line.put("acks", acks);
                    expected.add(text(line));
                }
    }

    static void head(String name, ApiKeys key, int version, String clientId, ApiMessage body) throws IOException {
        expected.add(text(headLine(name, key, version, clientId, body)));
    }

    static ObjectNode headLine(String name, ApiKeys key, int version, String clientId, ApiMessage body) throws IOException {
        RequestHeaderData header = header(key, (short) version, clientId, 3000 + version);
        ObjectNode line = write(name, "head", header, key, (short) version, body);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        line.put("bodyAt", header.size(cache, key.requestHeaderVersion((short) version)));
        return line;
    }

    static void headerVersions() throws IOException {
        List<String> lines = new ArrayList<>();
        for (ApiKeys key : ApiKeys.values())
            for (short version = 0; version <= key.latestVersion(); version++) {
                ArrayNode row = JSON.arrayNode().add(key.id).add(key.name).add(version);
                lines.add(row.add(key.requestHeaderVersion(version)).add(key.responseHeaderVersion(version)).toString());
            }
        Files.write(directory.resolve("header_versions.jsonl"), lines);
    }

    static RequestHeaderData header(ApiKeys key, short version, String clientId, int correlationId) {
        return new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion(version)
            .setCorrelationId(correlationId).setClientId(clientId);
    }

    static ObjectNode write(String name, String kind, RequestHeaderData header, ApiKeys key, short version, ApiMessage body) throws IOException {
        String file = save(name, serialize(header, key.requestHeaderVersion(version), body, version));
        return line(file, kind, key.id, version, header.correlationId(), header.clientId());
    }

    static ByteBuffer serialize(ApiMessage header, short headerVersion, ApiMessage body, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = header.size(cache, headerVersion) + body.size(cache, version);
        ByteBuffer buffer = ByteBuffer.allocate(size);
        ByteBufferAccessor writable = new ByteBufferAccessor(buffer);
        header.write(writable, cache, headerVersion);
        body.write(writable, cache, version);
        buffer.flip();
        return buffer;
    }

    static String save(String name, ByteBuffer frame) throws IOException {
        byte[] bytes = new byte[frame.remaining()];
        frame.get(bytes);
        Files.write(directory.resolve("frames").resolve(name + ".bin"), bytes);
        return name + ".bin";
    }

    static ObjectNode line(String file, String kind, short key, short version, int correlationId, String clientId) {
        return JSON.objectNode().put("file", file).put("kind", kind).put("apiKey", key).put("apiVersion", version)
            .put("correlationId", correlationId).put("clientId", clientId);
    }

    static String text(JsonNode node) throws IOException {
        return new ObjectMapper().writeValueAsString(node);
    }
}
