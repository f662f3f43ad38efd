// One frame into a file, and the line that says what it holds: what the programs beside this one have in common.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.*;

class Frames {
    static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    static Path directory;
    static final List<String> expected = new ArrayList<>();

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
