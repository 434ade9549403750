import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Takes records through Kafka Connect's own converters and transformations: a case a line, as JSON. */
public class ConnectOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private record Link(Transformation<SinkRecord> transformation, Predicate<SinkRecord> predicate, boolean negate) {}

    public static void main(String[] args) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println(answer(JSON.readTree(line)));
            } catch (Throwable e) {
                ObjectNode refused = JSON.createObjectNode();
                refused.put("refused", String.valueOf(e.getMessage()));
                out.println(refused);
            }
        }
    }

    private static JsonNode answer(JsonNode question) throws Exception {
        Converter keyIn = converter(question.get("key_in"), true);
        Converter valueIn = converter(question.get("value_in"), false);
        Converter keyOut = converter(question.get("key_out"), true);
        Converter valueOut = converter(question.get("value_out"), false);
        HeaderConverter headersIn = headerConverter(question.get("header_in"));
        HeaderConverter headersOut = headerConverter(question.get("header_out"));
        List<Link> links = new ArrayList<>();
        for (JsonNode link : question.get("links"))
            links.add(link(link));
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode record : question.get("records")) {
            ObjectNode answer = answers.addObject();
            try {
                SinkRecord taken = taken(record, keyIn, valueIn, headersIn);
                for (Link link : links)
                    if (taken != null && (link.predicate == null || link.predicate.test(taken) != link.negate))
                        taken = link.transformation.apply(taken);
                if (taken == null) {
                    answer.put("dropped", true);
                    continue;
                }
                byte[] key = keyOut.fromConnectData(taken.topic(), taken.keySchema(), taken.key());
                byte[] value = valueOut.fromConnectData(taken.topic(), taken.valueSchema(), taken.value());
                answer.put("topic", taken.topic());
                answer.put("key", encoded(key));
                answer.put("value", encoded(value));
                ArrayNode shown = answer.putArray("headers");
                for (Header header : taken.headers()) {
                    byte[] text = headersOut.fromConnectHeader(taken.topic(), header.key(), header.schema(),
                        header.value());
                    shown.addArray().add(header.key()).add(encoded(text));
                }
            } catch (Exception e) {
                answer.removeAll();
                answer.put("failed", e.getClass().getName());
                answer.put("message", String.valueOf(e.getMessage()));
            }
        }
        return answers;
    }

    private static SinkRecord taken(JsonNode record, Converter keys, Converter values, HeaderConverter headers) {
        String topic = record.get("topic").textValue();
        SchemaAndValue key = keys.toConnectData(topic, decoded(record.get("key")));
        SchemaAndValue value = values.toConnectData(topic, decoded(record.get("value")));
        ConnectHeaders made = new ConnectHeaders();
        for (JsonNode header : record.get("headers"))
            made.add(header.get(0).textValue(),
                headers.toConnectHeader(topic, header.get(0).textValue(), decoded(header.get(1))));
        JsonNode timestamp = record.get("timestamp");
        return new SinkRecord(topic, record.get("partition").intValue(), key.schema(), key.value(), value.schema(),
            value.value(), record.get("offset").longValue(), timestamp.isNull() ? null : timestamp.longValue(),
            TimestampType.CREATE_TIME, made);
    }

    private static Link link(JsonNode node) throws Exception {
        Transformation<SinkRecord> transformation = make(node.get("type").textValue());
        Map<String, String> config = properties(node.get("config"));
        transformation.config().validate(config).stream()
            .filter(value -> !value.errorMessages().isEmpty())
            .findFirst()
            .ifPresent(value -> { throw new IllegalArgumentException(value.errorMessages().toString()); });
        transformation.configure(config);
        Predicate<SinkRecord> predicate = null;
        if (node.hasNonNull("predicate")) {
            predicate = make(node.get("predicate").get("type").textValue());
            predicate.configure(properties(node.get("predicate").get("config")));
        }
        return new Link(transformation, predicate, node.path("negate").asBoolean());
    }

    private static Converter converter(JsonNode node, boolean isKey) throws Exception {
        Converter converter = make(node.get("type").textValue());
        converter.configure(properties(node.get("config")), isKey);
        return converter;
    }

    private static HeaderConverter headerConverter(JsonNode node) throws Exception {
        HeaderConverter converter = make(node.get("type").textValue());
        Map<String, String> config = properties(node.get("config"));
        config.put("converter.type", "header");
        converter.configure(config);
        return converter;
    }

    @SuppressWarnings("unchecked")
    private static <T> T make(String name) throws Exception {
        return (T) Class.forName(name).getDeclaredConstructor().newInstance();
    }

    private static Map<String, String> properties(JsonNode node) {
        Map<String, String> properties = new HashMap<>();
        node.fields().forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().textValue()));
        return properties;
    }

    private static byte[] decoded(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.textValue());
    }

    private static String encoded(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
