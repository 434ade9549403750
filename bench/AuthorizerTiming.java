// Times Apache Kafka's StandardAuthorizer with so many rules: the microseconds of one authorization and of one
// "any topic" check, median of rounds, the milliseconds of taking up all rules, and the bytes of heap that each takes,
// printed on one line. The rules are those of bench/authorization.py.

import java.net.InetAddress;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.IntConsumer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

public class AuthorizerTiming {
    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "L"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return ApiKeys.FETCH.id; }
        public int requestVersion() { return 0; }
        public String clientId() { return "c"; }
        public int correlationId() { return 0; }
    }

    static double medianMicros(int rounds, int calls, IntConsumer call) {
        double[] took = new double[rounds];
        for (int round = 0; round < rounds; round++) {
            long begin = System.nanoTime();
            for (int i = 0; i < calls; i++) call.accept(round * calls + i);
            took[round] = (System.nanoTime() - begin) / 1000.0 / calls;
        }
        Arrays.sort(took);
        return took[rounds / 2];
    }

    static long usedHeap() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(50);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    public static void main(String[] args) throws Exception {
        int rules = Integer.parseInt(args[0]);
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", "User:admin"));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        long before = usedHeap();
        Map<Uuid, StandardAcl> acls = new java.util.HashMap<>();
        for (int i = 0; i < rules; i++) {
            boolean prefixed = i % 10 == 0;
            acls.put(Uuid.randomUuid(), new StandardAcl(ResourceType.TOPIC,
                (prefixed ? "team-" : "topic-") + i, prefixed ? PatternType.PREFIXED : PatternType.LITERAL,
                "User:user-" + i % 1000, "*", AclOperation.READ, AclPermissionType.ALLOW));
        }
        long begin = System.nanoTime();
        authorizer.loadSnapshot(acls);
        double load = (System.nanoTime() - begin) / 1e6;
        acls = null;
        double memory = (double) (usedHeap() - before) / rules;
        Context context = new Context(new KafkaPrincipal("User", "user-7"), InetAddress.getByName("127.0.0.1"));
        int topics = rules / 1000;
        IntConsumer one = i -> authorizer.authorize(context, List.of(new Action(AclOperation.READ,
            new ResourcePattern(ResourceType.TOPIC, "topic-" + (i % topics * 1000 + 7), PatternType.LITERAL),
            1, true, true)));
        IntConsumer any = i -> authorizer.authorizeByResourceType(context, AclOperation.WRITE, ResourceType.TOPIC);
        medianMicros(5, 20_000, one);
        medianMicros(5, 5, any);
        System.out.println(medianMicros(7, 20_000, one) + " " + medianMicros(7, 5, any) + " " + load
            + " " + memory);
    }
}
