// Asks Apache Kafka's own StandardAuthorizer. One question a line on stdin, fields divided by tabs, one answer a line:
//   NEW superUsers allowEveryone          begins again without rules; no answer
//   ADD type name pattern principal host operation permission   no answer
//   ASK principalType principalName host operation type name   answers ALLOWED or DENIED, a tab, the audit line
//   ANY principalType principalName host operation type        answers ALLOWED or DENIED

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
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
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.LoggerConfig;

public class AuthorizerOracle {
    static String lastLine = "";

    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "L"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return ApiKeys.FETCH.id; }
        public int requestVersion() { return 0; }
        public String clientId() { return "c"; }
        public int correlationId() { return 0; }
    }

    static void catchAuditLines() {
        LoggerContext context = (LoggerContext) org.apache.logging.log4j.LogManager.getContext(false);
        AbstractAppender appender = new AbstractAppender("catch", null, null, true, null) {
            @Override
            public void append(LogEvent event) {
                lastLine = event.getLevel() + " " + event.getMessage().getFormattedMessage();
            }
        };
        appender.start();
        LoggerConfig config = new LoggerConfig("kafka.authorizer.logger", Level.TRACE, false);
        config.addAppender(appender, Level.TRACE, null);
        context.getConfiguration().addLogger("kafka.authorizer.logger", config);
        context.updateLoggers();
    }

    static StandardAuthorizer begin(String superUsers, String allowEveryone) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allowEveryone));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        return authorizer;
    }

    public static void main(String[] args) throws Exception {
        catchAuditLines();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "NEW" -> authorizer = begin(f[1], f[2]);
                case "ADD" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.valueOf(f[1]), f[2], PatternType.valueOf(f[3]), f[4], f[5],
                    AclOperation.valueOf(f[6]), AclPermissionType.valueOf(f[7])));
                case "ASK" -> {
                    Context context = new Context(new KafkaPrincipal(f[1], f[2]), InetAddress.getByName(f[3]));
                    ResourcePattern resource =
                        new ResourcePattern(ResourceType.valueOf(f[5]), f[6], PatternType.LITERAL);
                    Action action = new Action(AclOperation.valueOf(f[4]), resource, 1, true, true);
                    out.println(authorizer.authorize(context, List.of(action)).get(0) + "\t" + lastLine);
                }
                case "ANY" -> {
                    Context context = new Context(new KafkaPrincipal(f[1], f[2]), InetAddress.getByName(f[3]));
                    out.println(authorizer.authorizeByResourceType(
                        context, AclOperation.valueOf(f[4]), ResourceType.valueOf(f[5])));
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }
}
