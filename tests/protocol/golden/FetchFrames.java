// Writes Fetch frames (length prefix not included) of some versions with Kafka's own classes, and what Kafka's own JSON converters say of
// them. Usage: java -cp 'classes:<kafka>/libs/*' FetchFrames OUTPUT_DIRECTORY FIRST_VERSION LAST_VERSION. Lines are added to fetch.jsonl.

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.message.FetchRequestData.*;
import org.apache.kafka.common.message.FetchResponseData.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.AppInfoParser;

public class FetchFrames extends Frames {
    public static void main(String[] args) throws Exception {
        directory = Path.of(args[0]);
        Files.createDirectories(directory.resolve("frames"));
        for (short version = Short.parseShort(args[1]); version <= Short.parseShort(args[2]); version++) {
            fetchRequests(version);
            fetchResponses(version);
        }
        Files.write(directory.resolve("fetch.jsonl"), expected, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        System.out.println("kafka-clients " + AppInfoParser.getVersion());
    }

    static void fetchRequests(short version) throws Exception {
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
        if (version >= 7)
            request(version, "session", "broker-102-fetcher-0", session(fetch(102, version, topic("orders", fetched(7, 8))), version));
        if (version >= 12)
            request(version, "tags", "broker-102-fetcher-0", tagged(fetch(102, version, topic("orders", fetched(0, 1), fetched(1, 2))), version));
        request(version, "replica-many", "ReplicaFetcherThread-0-101", fetch(102, version, many.toArray(new FetchTopic[0])));
    }

    static FetchRequestData fetch(int replica, short version, FetchTopic... topics) {
        FetchRequestData data = new FetchRequestData().setMaxWaitMs(500).setMinBytes(1);
        if (version < 15) data.setReplicaId(replica);
        else if (replica >= 0) data.setReplicaState(new ReplicaState().setReplicaId(replica).setReplicaEpoch(7000000000L));
        data.setTopics(new ArrayList<>(List.of(topics)));
        if (version >= 3) data.setMaxBytes(10485760);
        if (version >= 4) data.setIsolationLevel((byte) (replica < 0 ? 1 : 0));
        for (FetchTopic topic : topics) {
            if (version >= 13) topic.setTopicId(id(topic.topic()));
            for (FetchPartition partition : topic.partitions()) {
                if (version >= 5) partition.setLogStartOffset(replica < 0 ? -1 : partition.fetchOffset() / 2);
                if (version >= 9) partition.setCurrentLeaderEpoch(partition.partition() + 3);
                if (version >= 12) partition.setLastFetchedEpoch(partition.partition() + 2);
            }
        }
        if (version >= 11 && replica < 0) data.setRackId("rack-ä");
        return data;
    }

    static FetchRequestData session(FetchRequestData data, short version) {
        ForgottenTopic forgotten = new ForgottenTopic().setTopic("clicks").setPartitions(List.of(4, 1, 70000));
        ForgottenTopic other = new ForgottenTopic().setTopic("none").setPartitions(List.of());
        if (version >= 13) forgotten.setTopicId(id("clicks"));
        if (version >= 13) other.setTopicId(id("none"));
        return data.setSessionId(1234567890).setSessionEpoch(42).setForgottenTopicsData(List.of(forgotten, other));
    }

    static FetchRequestData tagged(FetchRequestData data, short version) throws Exception {
        data.setClusterId("cluster-1");
        data.unknownTaggedFields().add(new RawTaggedField(1000, new byte[] {1, 2, 3}));
        data.topics().get(0).unknownTaggedFields().add(new RawTaggedField(77, new byte[200]));
        FetchPartition partition = data.topics().get(0).partitions().get(0);
        if (version >= 17) partition.setReplicaDirectoryId(new Uuid(5, 6));
        if (version >= 18) FetchPartition.class.getMethod("setHighWatermark", long.class).invoke(partition, 99L);
        partition.unknownTaggedFields().add(new RawTaggedField(50, new byte[0]));
        return data;
    }

    static Uuid id(String topic) {
        return new Uuid(0x0102030405060708L, topic.hashCode());
    }

    static FetchTopic topic(String name, FetchPartition... partitions) {
        return new FetchTopic().setTopic(name).setPartitions(new ArrayList<>(List.of(partitions)));
    }

    static FetchPartition fetched(int partition, long offset) {
        return new FetchPartition().setPartition(partition).setFetchOffset(offset).setPartitionMaxBytes(1048576 + partition);
    }

    static void request(short version, String name, String clientId, FetchRequestData body) throws Exception {
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
        if (version >= 12) response(version, "tags", tagged(version));
        if (version >= 7)
            response(version, "session-error", answer().setErrorCode(Errors.FETCH_SESSION_ID_NOT_FOUND.code()));
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

    static FetchResponseData tagged(short version) {
        PartitionData diverging = answered(0, version, 100, MemoryRecords.EMPTY)
            .setDivergingEpoch(new EpochEndOffset().setEpoch(3).setEndOffset(55));
        PartitionData moved = answered(1, version, -1, MemoryRecords.EMPTY)
            .setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code())
            .setCurrentLeader(new LeaderIdAndEpoch().setLeaderId(103).setLeaderEpoch(8))
            .setSnapshotId(new SnapshotId().setEndOffset(9).setEpoch(1));
        PartitionData unknown = answered(2, version, 100, records((byte) 2, 1, 300));
        unknown.unknownTaggedFields().add(new RawTaggedField(9, new byte[] {7}));
        FetchResponseData data = answer(answers("orders", diverging, moved, unknown));
        data.responses().get(0).unknownTaggedFields().add(new RawTaggedField(300, new byte[130]));
        if (version >= 16)
            data.nodeEndpoints().add(new NodeEndpoint().setNodeId(103).setHost("broker-103").setPort(9092).setRack("r"));
        if (version >= 16)
            data.nodeEndpoints().add(new NodeEndpoint().setNodeId(104).setHost("broker-104").setPort(9092));
        data.unknownTaggedFields().add(new RawTaggedField(4, new byte[] {4}));
        return data;
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
        if (version >= 7 && body.errorCode() == 0) body.setSessionId(1234567890);
        if (version >= 13) for (FetchableTopicResponse topic : body.responses()) topic.setTopicId(id(topic.topic()));
        if (version >= 11)
            for (FetchableTopicResponse topic : body.responses())
                for (PartitionData partition : topic.partitions())
                    partition.setPreferredReadReplica(partition.partitionIndex() == 7 ? 104 : -1);
        short headerVersion = ApiKeys.FETCH.responseHeaderVersion(version);
        ByteBuffer frame = serialize(new ResponseHeaderData().setCorrelationId(2000 + version), headerVersion, body, version);
        String file = save("fetch-response-v" + version + "-" + name, frame);
        ObjectNode line = line(file, "response", ApiKeys.FETCH.id, version, 2000 + version, null);
        line.set("body", FetchResponseDataJsonConverter.write(body, version, false));
        expected.add(text(line));
    }
}
