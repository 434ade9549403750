import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Apache Kafka's own codec behind lines of text, one question and one answer a line; "!" begins an answer that failed.
 *
 * message CLASS VERSION HEX         the bytes Java writes again, and the values as JSON
 * default CLASS VERSION             the bytes of an instance that nobody has filled
 */
public final class MessageOracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.raft.generated.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" ", -1));
            } catch (Throwable e) {
                Throwable cause = e.getCause() == null ? e : e.getCause();
                answer = "! " + String.valueOf(cause).replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "message":
                return message(find(words[1]), Short.parseShort(words[2]), bytes(words[3]));
            case "default":
                {
                    String said = hex((Message) find(words[1]).getDeclaredConstructor().newInstance(), Short.parseShort(words[2]));
                    return said.isEmpty() ? "-" : said;
                }
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static ByteBuffer bytes(String hex) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hex));
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] written = new byte[message.size(cache, version)];
        ByteBuffer into = ByteBuffer.wrap(written);
        message.write(new ByteBufferAccessor(into), cache, version);
        if (into.hasRemaining())
            throw new IllegalStateException("wrote less than it said");
        return HexFormat.of().formatHex(written);
    }

    private static String message(Class<?> kind, short version, ByteBuffer bytes) throws Exception {
        Message message = (Message) kind.getDeclaredConstructor().newInstance();
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining())
            throw new IllegalStateException(bytes.remaining() + " bytes left");
        Object json = Class.forName(kind.getName() + "JsonConverter")
            .getMethod("write", kind, short.class).invoke(null, message, version);
        return hex(message, version) + " " + json;
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name);
            } catch (ClassNotFoundException e) {
                // the next one may have it
            }
        }
        throw new ClassNotFoundException(name);
    }
}
