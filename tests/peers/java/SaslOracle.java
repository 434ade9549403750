// Speaks Kafka's own halves of SASL. One command a line, fields divided by tabs, byte strings in base64; one answer a line:
//   CLIENT mechanism user password                        begins a client of PLAIN or SCRAM, answers its first token
//   SERVER mechanism user salt storedKey serverKey iters  begins a SCRAM server that knows one user, answers OK
//   STEP token       the next token of whichever was begun: TOKEN t, DONE t, or ERROR
//   JAAS text        answers MODULE flag key:value..., all in base64, or ERROR

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;

public class SaslOracle {
    static SaslClient client;
    static ScramSaslServer server;

    static byte[] bytes(String text) { return Base64.getDecoder().decode(text); }

    static String text(byte[] data) { return Base64.getEncoder().encodeToString(data == null ? new byte[0] : data); }

    static String string(String text) { return new String(bytes(text), StandardCharsets.UTF_8); }

    static String string64(String text) { return text(text.getBytes(StandardCharsets.UTF_8)); }

    static CallbackHandler answering(String user, String password, ScramCredential credential) {
        return callbacks -> {
            String asked = null;
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback name) {
                    asked = name.getDefaultName();
                    name.setName(user);
                } else if (callback instanceof PasswordCallback secret) {
                    secret.setPassword(password.toCharArray());
                } else if (callback instanceof ScramCredentialCallback wanted) {
                    wanted.scramCredential(user.equals(asked) ? credential : null);
                } else {
                    throw new UnsupportedCallbackException(callback);
                }
            }
        };
    }

    static String answer(String[] f) throws Exception {
        switch (f[0]) {
            case "CLIENT": {
                server = null;
                CallbackHandler handler = answering(string(f[2]), string(f[3]), null);
                client = f[1].equals("PLAIN")
                    ? Sasl.createSaslClient(new String[] {"PLAIN"}, null, "kafka", "localhost", Map.of(), handler)
                    : new ScramSaslClient(ScramMechanism.forMechanismName(f[1]), handler);
                return "TOKEN\t" + text(client.evaluateChallenge(new byte[0]));
            }
            case "SERVER": {
                client = null;
                ScramCredential known =
                    new ScramCredential(bytes(f[3]), bytes(f[4]), bytes(f[5]), Integer.parseInt(f[6]));
                ScramMechanism mechanism = ScramMechanism.forMechanismName(f[1]);
                server = new ScramSaslServer(mechanism, Map.of(), answering(string(f[2]), "", known));
                return "OK";
            }
            case "STEP": {
                byte[] token = bytes(f[1]);
                byte[] reply = client != null ? client.evaluateChallenge(token) : server.evaluateResponse(token);
                boolean done = client != null ? client.isComplete() : server.isComplete();
                return (done ? "DONE\t" : "TOKEN\t") + text(reply);
            }
            case "JAAS": {
                Map<String, Object> config = Map.of("sasl.jaas.config", new Password(string(f[1])));
                AppConfigurationEntry entry = JaasContext.loadClientContext(config).configurationEntries().get(0);
                StringBuilder out = new StringBuilder(string64(entry.getLoginModuleName()) + "\t");
                String flag = entry.getControlFlag().toString();
                out.append(string64(flag.substring(flag.indexOf(':') + 1).trim()));
                new TreeMap<String, Object>(entry.getOptions()).forEach((key, value) ->
                    out.append("\t").append(string64(key)).append(":").append(string64((String) value)));
                return out.toString();
            }
            default: throw new IllegalArgumentException(f[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println(answer(line.split("\t", -1)));
            } catch (Exception e) {
                out.println("ERROR");
            }
        }
    }
}
