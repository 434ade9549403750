import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Does what each line of standard input says with the admin client on the class path, and prints what came of it:
 * the code of Kafka's error, 0 for none, or "absent" where this client has no such call. Built against 2.3; what other
 * releases lack shows when it is called.
 */
public class Admins {
    private final AdminClient admin;

    private Admins(AdminClient admin) {
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        try (AdminClient admin = AdminClient.create(properties)) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(new Admins(admin).outcome(line.split(" ")));
            }
        }
    }

    private String outcome(String[] words) throws InterruptedException {
        try {
            begun(words).get();
            return "0";
        } catch (ExecutionException e) {
            return String.valueOf(Errors.forException(e.getCause()).code());
        } catch (LinkageError e) {
            return "absent";
        }
    }

    private KafkaFuture<?> begun(String[] words) {
        String name = words[1];
        switch (words[0]) {
            case "create":
                return create(name, words);
            case "grow":
                Map<String, NewPartitions> grown =
                    Collections.singletonMap(name, NewPartitions.increaseTo(Integer.parseInt(words[2])));
                return admin.createPartitions(grown).all();
            case "alter":
                return alter(name, words);
            case "incremental":
                return incremental(name, words);
            case "allow":
                return admin.createAcls(Collections.singleton(rule(name, words[2]))).all();
            case "disallow":
                return admin.deleteAcls(Collections.singleton(rule(name, words[2]).toFilter())).all();
            case "delete":
                return admin.deleteTopics(Collections.singleton(name)).all();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private KafkaFuture<?> create(String name, String[] words) {
        NewTopic topic = new NewTopic(name, Integer.parseInt(words[2]), Short.parseShort(words[3]));
        if (words.length > 4) {
            topic.configs(Collections.singletonMap(words[4], words[5]));
        }
        return admin.createTopics(Collections.singleton(topic)).all();
    }

    private KafkaFuture<?> alter(String name, String[] words) {
        Config config = new Config(Collections.singleton(new ConfigEntry(words[2], words[3])));
        return admin.alterConfigs(Collections.singletonMap(topic(name), config)).all();
    }

    private KafkaFuture<?> incremental(String name, String[] words) {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(words[2], words[3]), AlterConfigOp.OpType.SET);
        return admin.incrementalAlterConfigs(
            Collections.singletonMap(topic(name), Collections.singleton(change))).all();
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private static AclBinding rule(String topic, String principal) {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
            new AccessControlEntry(principal, "*", AclOperation.READ, AclPermissionType.ALLOW));
    }
}
