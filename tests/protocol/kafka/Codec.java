// Kafka's own codec over a pipe. Reads questions from stdin and answers each on stdout, until stdin ends.
//   question: int32 size, then  'c' int16 key, byte isRequest, int16 version, frame   -- check: what is this frame to Kafka?
//                           or  'm' int16 key, byte isRequest, int16 version, int64 seed -- make one up
//   answer:   int32 size, the frame as Kafka writes it; int32 size, the body as Kafka's JSON converter prints it.
//             A frame that Kafka refuses has size -1, and the reason in place of the JSON.
// Made-up messages are drawn from Kafka's schemas (all fields, known and unknown tagged fields) and written twice: by the
// schema, and by the generated class that has read that.
// Usage: java -cp '<kafka>/libs/*' Codec.java

import com.fasterxml.jackson.databind.JsonNode;
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.*;
import org.apache.kafka.common.record.MemoryRecords;

public class Codec {
    static final int FIRST_UNKNOWN_TAG = 100;
    static final String LETTERS = "abcXYZ-._09äκ😀";

    public static void main(String[] args) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            int size;
            try {
                size = in.readInt();
            } catch (EOFException end) {
                return;
            }
            byte[] question = new byte[size];
            in.readFully(question);
            answer(ByteBuffer.wrap(question), out);
            out.flush();
        }
    }

    static void answer(ByteBuffer question, DataOutputStream out) throws Exception {
        byte what = question.get();
        ApiKeys key = ApiKeys.forId(question.getShort());
        boolean isRequest = question.get() != 0;
        short version = question.getShort();
        byte[] frame;
        String said;
        try {
            ByteBuffer given = what == 'c' ? question.slice() : made(key, isRequest, version, new Random(question.getLong()));
            ByteBufferAccessor reader = new ByteBufferAccessor(given);
            short headerVersion = isRequest ? key.requestHeaderVersion(version) : key.responseHeaderVersion(version);
            ApiMessage header = isRequest ? new RequestHeaderData(reader, headerVersion) : new ResponseHeaderData(reader, headerVersion);
            ApiMessage body = isRequest ? key.messageType.newRequest() : key.messageType.newResponse();
            body.read(reader, version);
            if (reader.remaining() != 0) throw new IllegalArgumentException(reader.remaining() + " bytes follow");
            frame = written(header, headerVersion, body, version);
            said = json(body, version).toString();
        } catch (RuntimeException refused) {
            frame = null;
            said = refused.toString();
        }
        out.writeInt(frame == null ? -1 : frame.length);
        if (frame != null) out.write(frame);
        byte[] text = said.getBytes(StandardCharsets.UTF_8);
        out.writeInt(text.length);
        out.write(text);
    }

    static byte[] written(ApiMessage header, short headerVersion, ApiMessage body, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(header.size(cache, headerVersion) + body.size(cache, version));
        ByteBufferAccessor writer = new ByteBufferAccessor(buffer);
        header.write(writer, cache, headerVersion);
        body.write(writer, cache, version);
        return buffer.array();
    }

    static JsonNode json(ApiMessage body, short version) {
        try {
            Class<?> converter = Class.forName(body.getClass().getName() + "JsonConverter");
            return (JsonNode) converter.getMethod("write", body.getClass(), short.class, boolean.class).invoke(null, body, version, false);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static ByteBuffer made(ApiKeys key, boolean isRequest, short version, Random random) {
        Schema schema = (isRequest ? key.messageType.requestSchemas() : key.messageType.responseSchemas())[version];
        ApiMessage header = isRequest
            ? new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion(version).setCorrelationId(random.nextInt())
                .setClientId(random.nextInt(4) == 0 ? null : text(random))
            : new ResponseHeaderData().setCorrelationId(random.nextInt());
        short headerVersion = isRequest ? key.requestHeaderVersion(version) : key.responseHeaderVersion(version);
        Object body = drawn(schema, random);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(header.size(cache, headerVersion) + schema.sizeOf(body));
        header.write(new ByteBufferAccessor(buffer), cache, headerVersion);
        schema.write(buffer, body);
        buffer.flip();
        return buffer;
    }

    static Object drawn(Type type, Random random) {
        if (type.isNullable() && random.nextInt(4) == 0) return null;
        if (type instanceof Schema) {
            Struct struct = new Struct((Schema) type);
            for (BoundField field : ((Schema) type).fields()) struct.set(field, drawn(field.def.type, random));
            return struct;
        }
        if (type.isArray()) {
            Object[] items = new Object[random.nextInt(200) == 0 ? 150 : random.nextInt(4)];
            for (int i = 0; i < items.length; i++) items[i] = drawn(type.arrayElementType().get(), random);
            return items;
        }
        if (type instanceof TaggedFields) return tags(known(type), random);
        switch (type.toString()) {
            case "BOOLEAN": return random.nextBoolean();
            case "INT8": return (byte) random.nextInt();
            case "INT16": return (short) (random.nextBoolean() ? 0 : random.nextInt());  // mostly error codes
            case "INT32": return random.nextInt();
            case "INT64": return random.nextLong();
            case "UUID": return new Uuid(random.nextLong(), random.nextLong());
            case "STRING": case "NULLABLE_STRING": case "COMPACT_STRING": case "COMPACT_NULLABLE_STRING": return text(random);
            case "RECORDS": case "COMPACT_RECORDS": return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(random)));
            default: throw new IllegalArgumentException("cannot make up a " + type);
        }
    }

    @SuppressWarnings("unchecked")
    static Map<Integer, Field> known(Type type) {
        try {
            java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
            fields.setAccessible(true);  // 3.9 has no getter
            return (Map<Integer, Field>) fields.get(type);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static NavigableMap<Integer, Object> tags(Map<Integer, Field> known, Random random) {
        NavigableMap<Integer, Object> tags = new TreeMap<>();
        known.forEach((tag, field) -> {
            if (random.nextInt(3) == 0) tags.put(tag, drawn(field.type, random));
        });
        while (random.nextInt(6) == 0) {
            int tag = FIRST_UNKNOWN_TAG + (random.nextBoolean() ? random.nextInt(30) : random.nextInt(1 << 30));
            tags.put(tag, new RawTaggedField(tag, bytes(random)));
        }
        return tags;
    }

    static byte[] bytes(Random random) {
        byte[] bytes = new byte[random.nextInt(5) == 0 ? 100 + random.nextInt(200) : random.nextInt(20)];
        random.nextBytes(bytes);
        return bytes;
    }

    static String text(Random random) {
        int[] letters = LETTERS.codePoints().toArray();
        StringBuilder text = new StringBuilder();
        for (int left = random.nextInt(30) == 0 ? 110 + random.nextInt(150) : random.nextInt(8); left > 0; left--)
            text.appendCodePoint(letters[random.nextInt(letters.length)]);
        return text.toString();
    }
}
