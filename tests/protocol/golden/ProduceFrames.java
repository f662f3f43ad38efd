// Writes Produce responses (length prefix not included) of some versions with Kafka's own classes, each twice: with a throttle time of 0,
// and of 16909060 ms (01 02 03 04). Usage: java -cp 'classes:<kafka>/libs/*' ProduceFrames OUTPUT_DIRECTORY FIRST_VERSION LAST_VERSION.
// Lines are added to produce.jsonl.

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.message.ProduceResponseData.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.utils.AppInfoParser;

public class ProduceFrames extends Frames {
    static final int THROTTLED_MS = 0x01020304;

    public static void main(String[] args) throws Exception {
        directory = Path.of(args[0]);
        for (short version = Short.parseShort(args[1]); version <= Short.parseShort(args[2]); version++) {
            write("none", version, new ProduceResponseData());
            write("one", version, answer(version, answered(0, version)));
            write("many", version, answer(version, answered(0, version), answered(1, version), answered(70000, version)));
            if (version >= 8) write("errors", version, answer(version, answered(0, version), refused(1)));
            if (version >= 9) write("tags", version, tagged(version));
        }
        Files.write(directory.resolve("produce.jsonl"), expected, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        System.out.println("kafka-clients " + AppInfoParser.getVersion());
    }

    static ProduceResponseData answer(short version, PartitionProduceResponse... partitions) throws Exception {
        ProduceResponseData data = new ProduceResponseData();
        for (String name : List.of("orders", "Straße-κάφκα-😀")) {
            TopicProduceResponse topic = new TopicProduceResponse().setPartitionResponses(List.of(partitions));
            if (version < 13) topic.setName(name);
            else TopicProduceResponse.class.getMethod("setTopicId", Uuid.class).invoke(topic, new Uuid(1, name.hashCode()));
            data.responses().add(topic);
        }
        return data;
    }

    static PartitionProduceResponse answered(int partition, short version) {
        PartitionProduceResponse data = new PartitionProduceResponse().setIndex(partition).setBaseOffset(123456789012L);
        if (version >= 2) data.setLogAppendTimeMs(1700000000000L);
        if (version >= 5) data.setLogStartOffset(7);
        return data;
    }

    static PartitionProduceResponse refused(int partition) {
        return new PartitionProduceResponse().setIndex(partition).setErrorCode(Errors.INVALID_RECORD.code()).setBaseOffset(-1)
            .setErrorMessage("x".repeat(200)).setRecordErrors(List.of(
                new BatchIndexAndErrorMessage().setBatchIndex(3).setBatchIndexErrorMessage("no key"),
                new BatchIndexAndErrorMessage().setBatchIndex(4)));
    }

    static ProduceResponseData tagged(short version) throws Exception {
        PartitionProduceResponse moved = answered(0, version).setErrorCode(Errors.NOT_LEADER_OR_FOLLOWER.code());
        if (version >= 10) moved.setCurrentLeader(new LeaderIdAndEpoch().setLeaderId(103).setLeaderEpoch(8));
        moved.unknownTaggedFields().add(new RawTaggedField(9, new byte[] {7}));
        ProduceResponseData data = answer(version, moved);
        if (version >= 10) data.nodeEndpoints().add(new NodeEndpoint().setNodeId(103).setHost("broker-103").setPort(9092).setRack("r"));
        if (version >= 10) data.nodeEndpoints().add(new NodeEndpoint().setNodeId(104).setHost("broker-104").setPort(9092));
        data.unknownTaggedFields().add(new RawTaggedField(4, new byte[] {4, 0}));
        return data;
    }

    static void write(String name, short version, ProduceResponseData body) throws IOException {
        ResponseHeaderData header = new ResponseHeaderData().setCorrelationId(4000 + version);
        short headerVersion = ApiKeys.PRODUCE.responseHeaderVersion(version);
        ObjectNode line = JSON.objectNode().put("name", "produce-response-v" + version + "-" + name).put("apiVersion", version);
        line.put("frame", bytes(serialize(header, headerVersion, body, version)));
        if (version >= 1) body.setThrottleTimeMs(THROTTLED_MS);
        line.put("throttled", bytes(serialize(header, headerVersion, body, version)));
        expected.add(text(line));
    }

    static byte[] bytes(ByteBuffer frame) {
        byte[] bytes = new byte[frame.remaining()];
        frame.get(bytes);
        return bytes;
    }
}
