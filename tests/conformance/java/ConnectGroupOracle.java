import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import javax.crypto.KeyGenerator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.distributed.EagerAssignor;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.rest.InternalRequestSignature;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.maven.artifact.versioning.DefaultArtifactVersion;
import org.apache.maven.artifact.versioning.InvalidVersionSpecificationException;
import org.apache.maven.artifact.versioning.VersionRange;

/**
 * Connect's own classes behind lines of JSON, one question ("op" and what it needs) and one answer a line; "!" begins
 * an answer that failed. Tasks are written as [connector, number], bytes in base64.
 *
 * keys, worker           the table of a worker's settings; a worker's settings checked
 * mac, verify, generate  a signature; whether one is valid; how long a key is
 * encode, decode         messages of the group protocol
 * json                   a value as the internal converter writes it
 * incremental, eager     a round of assignment; "max_delay" in place of a round makes a new assignor
 * versions               which of some versions a setting takes, null for the latest, or "refused"
 */
public final class ConnectGroupOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonConverter CONVERTER = new JsonConverter();
    private static long now;
    private static IncrementalCooperativeAssignor assignor;
    private static Method round;

    public static void main(String[] args) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", "false"), false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                JsonNode question = JSON.readTree(line);
                answer = JSON.writeValueAsString(answer(question.get("op").asText(), question));
            } catch (Throwable e) {
                Throwable cause = e.getCause() == null ? e : e.getCause();
                answer = "! " + String.valueOf(cause).replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
    }

    private static Object versions(JsonNode q) {
        VersionRange range;
        try {
            range = PluginUtils.connectorVersionRequirement(q.get("wanted").asText());
        } catch (InvalidVersionSpecificationException e) {
            return "refused";
        }
        if (range == null)
            return null;
        List<String> taken = new ArrayList<>();
        for (JsonNode version : q.get("versions"))
            if (range.containsVersion(new DefaultArtifactVersion(version.asText())))
                taken.add(version.asText());
        return taken;
    }

    private static Object answer(String op, JsonNode q) throws Exception {
        switch (op) {
            case "keys":
                return keys();
            case "worker":
                new DistributedConfig(JSON.convertValue(q.get("properties"), Map.class));
                return "good";
            case "mac":
                return mac(q.get("algorithm").asText(), bytes(q, "key"), bytes(q, "body"));
            case "verify":
                return new InternalRequestSignature(bytes(q, "body"), Mac.getInstance(q.get("algorithm").asText()),
                    bytes(q, "signature")).isValid(new SecretKeySpec(bytes(q, "key"), q.get("key_algorithm").asText()));
            case "generate":
                KeyGenerator generator = KeyGenerator.getInstance(q.get("algorithm").asText());
                if (!q.get("bits").isNull())
                    generator.init(q.get("bits").asInt());
                return generator.generateKey().getEncoded().length;
            case "encode":
                return encode(q);
            case "decode":
                return decode(q.get("kind").asText(), ByteBuffer.wrap(bytes(q, "bytes")));
            case "json":
                return new String(CONVERTER.fromConnectData("", null, plain(q.get("value"))), "UTF-8");
            case "incremental":
                return incremental(q);
            case "eager":
                return eager(q);
            case "versions":
                return versions(q);
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static Object keys() throws Exception {
        Class<?> crypto = Class.forName("org.apache.kafka.connect.runtime.distributed.Crypto");
        Method config = DistributedConfig.class.getDeclaredMethod("config", crypto);
        config.setAccessible(true);
        Field system = crypto.getField("SYSTEM");
        system.setAccessible(true);
        List<Object> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : ((ConfigDef) config.invoke(null, system.get(null))).configKeys().values()) {
            Map<String, Object> row = new HashMap<>();
            row.put("name", key.name);
            row.put("type", key.type.name());
            row.put("importance", key.importance.name());
            row.put("required", !key.hasDefault());
            row.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            rows.add(row);
        }
        return rows;
    }

    private static byte[] mac(String algorithm, byte[] key, byte[] body) throws Exception {
        Mac mac = Mac.getInstance(algorithm);
        mac.init(new SecretKeySpec(key, algorithm));
        return mac.doFinal(body);
    }

    private static Object encode(JsonNode q) {
        short version = (short) q.get("version").asInt();
        switch (q.get("kind").asText()) {
            case "worker":
                ExtendedAssignment has = q.get("assignment").isNull() ? null : extended(q.get("assignment"));
                ExtendedWorkerState state = new ExtendedWorkerState(q.get("url").asText(), q.get("offset").asLong(), has);
                return array(version == 0
                    ? ConnectProtocol.serializeMetadata(state)
                    : IncrementalCooperativeConnectProtocol.serializeMetadata(state, version == 2));
            case "whole":
                return array(ConnectProtocol.serializeAssignment(new ConnectProtocol.Assignment(
                    (short) q.get("error").asInt(), q.get("leader").asText(), q.get("url").asText(),
                    q.get("offset").asLong(), names(q.get("connectors")), tasks(q.get("tasks")))));
            default:
                return array(IncrementalCooperativeConnectProtocol.serializeAssignment(extended(q), version == 2));
        }
    }

    private static ExtendedAssignment extended(JsonNode q) {
        return new ExtendedAssignment((short) q.get("version").asInt(), (short) q.get("error").asInt(),
            q.get("leader").asText(), q.get("url").asText(), q.get("offset").asLong(), names(q.get("connectors")),
            tasks(q.get("tasks")), names(q.get("revoked_connectors")), tasks(q.get("revoked_tasks")),
            q.get("delay").asInt());
    }

    private static Object decode(String kind, ByteBuffer buffer) {
        switch (kind) {
            case "worker":
                ExtendedWorkerState state = IncrementalCooperativeConnectProtocol.deserializeMetadata(buffer);
                ObjectNode out = JSON.createObjectNode().put("url", state.url()).put("offset", state.offset());
                out.set("assignment", state.assignment() == ExtendedAssignment.empty() ? null : told(state.assignment()));
                return out;
            case "whole":
                ConnectProtocol.Assignment whole = ConnectProtocol.deserializeAssignment(buffer);
                return told(whole);
            default:
                return told(IncrementalCooperativeConnectProtocol.deserializeAssignment(buffer));
        }
    }

    private static ObjectNode told(ConnectProtocol.Assignment assignment) {
        ObjectNode out = JSON.createObjectNode().put("error", assignment.error()).put("leader", assignment.leader())
            .put("url", assignment.leaderUrl()).put("offset", assignment.offset());
        out.set("connectors", JSON.valueToTree(assignment.connectors()));
        out.set("tasks", told(assignment.tasks()));
        if (assignment instanceof ExtendedAssignment) {
            ExtendedAssignment extended = (ExtendedAssignment) assignment;
            out.put("version", extended.version()).put("delay", extended.delay());
            out.set("revoked_connectors", JSON.valueToTree(extended.revokedConnectors()));
            out.set("revoked_tasks", told(extended.revokedTasks()));
        }
        return out;
    }

    private static ArrayNode told(Collection<ConnectorTaskId> tasks) {
        ArrayNode out = JSON.createArrayNode();
        for (ConnectorTaskId task : tasks)
            out.addArray().add(task.connector()).add(task.task());
        return out;
    }

    private static Object incremental(JsonNode q) throws Exception {
        if (q.has("max_delay")) {
            Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
                (proxy, method, args) -> now);
            assignor = new IncrementalCooperativeAssignor(new LogContext(), time, q.get("max_delay").asInt());
            round = IncrementalCooperativeAssignor.class.getDeclaredMethod("performTaskAssignment",
                ClusterConfigState.class, int.class, int.class, Map.class);
            round.setAccessible(true);
            return "new";
        }
        now = q.get("now").asLong();
        Map<String, ConnectorsAndTasks> members = new TreeMap<>();
        q.get("members").fields().forEachRemaining(member -> members.put(member.getKey(), new ConnectorsAndTasks.Builder()
            .with(names(member.getValue().get("connectors")), tasks(member.getValue().get("tasks"))).build()));
        Object shares = round.invoke(assignor, config(q.get("connectors")), q.get("last").asInt(),
            q.get("generation").asInt(), members);
        Map<String, Object> out = new HashMap<>();
        for (String member : members.keySet()) {
            ObjectNode part = JSON.createObjectNode();
            part.set("connectors", JSON.valueToTree(of(shares, "newlyAssignedConnectors", member)));
            part.set("tasks", told((Collection<ConnectorTaskId>) of(shares, "newlyAssignedTasks", member)));
            part.set("revoked_connectors", JSON.valueToTree(of(shares, "newlyRevokedConnectors", member)));
            part.set("revoked_tasks", told((Collection<ConnectorTaskId>) of(shares, "newlyRevokedTasks", member)));
            out.put(member, part);
        }
        Field delay = IncrementalCooperativeAssignor.class.getDeclaredField("delay");
        delay.setAccessible(true);
        return Map.of("members", out, "delay", delay.getInt(assignor));
    }

    private static Collection<?> of(Object shares, String what, String member) throws Exception {
        Method method = shares.getClass().getMethod(what, String.class);
        method.setAccessible(true);
        return (Collection<?>) method.invoke(shares, member);
    }

    private static Object eager(JsonNode q) throws Exception {
        // What the assignor asks of its coordinator is the configuration alone: the rest of one needs a broker.
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        WorkerCoordinator coordinator =
            (WorkerCoordinator) ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(WorkerCoordinator.class);
        coordinator.configSnapshot(config(q.get("connectors")));
        Map<String, ExtendedWorkerState> members = new HashMap<>();
        q.get("members").forEach(m -> members.put(m.asText(), new ExtendedWorkerState("http://" + m.asText(), 1, null)));
        Method perform = EagerAssignor.class.getDeclaredMethod("performTaskAssignment", String.class, long.class,
            Map.class, WorkerCoordinator.class);
        perform.setAccessible(true);
        String leader = members.keySet().iterator().next();
        Map<String, ByteBuffer> messages = (Map<String, ByteBuffer>) perform.invoke(
            new EagerAssignor(new LogContext()), leader, 1L, members, coordinator);
        ObjectNode out = JSON.createObjectNode();
        messages.forEach((member, message) -> out.set(member, told(ConnectProtocol.deserializeAssignment(message))));
        return out;
    }

    private static ClusterConfigState config(JsonNode connectors) {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<String, TargetState> states = new HashMap<>();
        connectors.fields().forEachRemaining(connector -> {
            counts.put(connector.getKey(), connector.getValue().asInt());
            configs.put(connector.getKey(), Map.of());
            states.put(connector.getKey(), TargetState.STARTED);
        });
        return new ClusterConfigState(1, null, counts, configs, states, Map.of(), Map.of(), Map.of(), Map.of(), Set.of(),
            Set.of());
    }

    private static Collection<String> names(JsonNode list) {
        List<String> out = new ArrayList<>();
        list.forEach(name -> out.add(name.asText()));
        return out;
    }

    private static Collection<ConnectorTaskId> tasks(JsonNode list) {
        List<ConnectorTaskId> out = new ArrayList<>();
        list.forEach(task -> out.add(new ConnectorTaskId(task.get(0).asText(), task.get(1).asInt())));
        return out;
    }

    private static Object plain(JsonNode value) {
        if (value.isObject()) {
            Map<String, Object> out = new LinkedHashMap<>();
            value.fields().forEachRemaining(field -> out.put(field.getKey(), plain(field.getValue())));
            return out;
        }
        if (value.isArray()) {
            List<Object> out = new ArrayList<>();
            value.forEach(item -> out.add(plain(item)));
            return out;
        }
        return JSON.convertValue(value, Object.class);
    }

    private static byte[] bytes(JsonNode q, String name) {
        return Base64.getDecoder().decode(q.get(name).asText());
    }

    private static byte[] array(ByteBuffer buffer) {
        byte[] out = new byte[buffer.remaining()];
        buffer.get(out);
        return out;
    }
}
