// Maps Kerberos names to users as Kafka does. One question a line, fields in Base64, divided by tabs:
//   defaultRealm rules name     the rules divided by line ends
// answers OK and the user in Base64, RULES when they cannot be read, or NAME when they give no user.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

public class KerberosOracle {
    static String decoded(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    static String answer(String[] f) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(decoded(f[0]), Arrays.asList(decoded(f[1]).split("\n", -1)));
        } catch (Exception e) {
            return "RULES";
        }
        try {
            String user = namer.shortName(KerberosName.parse(decoded(f[2])));
            return "OK " + Base64.getEncoder().encodeToString(user.getBytes(StandardCharsets.UTF_8));
        } catch (Exception e) {
            return "NAME";
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
        out.flush();
    }
}
