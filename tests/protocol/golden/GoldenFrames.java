// Writes requests other than Fetch (length prefix not included) with Kafka's own classes, and the header versions of all.
// Usage: java -cp 'classes:<kafka>/libs/*' GoldenFrames OUTPUT_DIRECTORY

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.utils.AppInfoParser;

public class GoldenFrames extends Frames {
    public static void main(String[] args) throws Exception {
        directory = Path.of(args[0]);
        Files.createDirectories(directory.resolve("frames"));
        heads();
        Files.write(directory.resolve("heads.jsonl"), expected);
        headerVersions();
        System.out.println("kafka-clients " + AppInfoParser.getVersion());
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
}
