import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Sends each line of standard input as a record, with the producer on the class path, and prints its offset, or the
 * name of the exception: one connection after the other, as sessions end. Arguments: a file of settings, a topic.
 */
public class Sender {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer";

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(args[0])) {
            properties.load(file);
        }
        properties.put("key.serializer", BYTES);
        properties.put("value.serializer", BYTES);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                byte[] value = line.getBytes(StandardCharsets.UTF_8);
                try {
                    System.out.println(producer.send(new ProducerRecord<>(args[1], value)).get().offset());
                } catch (ExecutionException e) {
                    System.out.println(e.getCause().getClass().getSimpleName());
                }
            }
        }
    }
}
