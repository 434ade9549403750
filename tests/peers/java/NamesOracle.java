// Prints certificate names as Java does, and maps them as Kafka does. One question a line, fields divided by tabs:
//   NAME derInHex        answers X500Principal.getName()
//   MAP rules name       answers the principal's name, or ERROR

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class NamesOracle {
    static String answer(String[] f) {
        try {
            return f[0].equals("NAME")
                ? new X500Principal(HexFormat.of().parseHex(f[1])).getName()
                : SslPrincipalMapper.fromRules(f[1]).getName(f[2]);
        } catch (Exception e) {
            return "ERROR";
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
