import java.io.FileInputStream;
import java.time.Duration;
import java.util.Collections;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;

/**
 * Prints the offset of each record of a topic, and in the end the name of the exception that poll() threw: what an
 * application is told. Arguments: a file of settings, a topic.
 *
 * Kafka's console consumer does not do for this: where its close() is refused as well, it never says to its own
 * shutdown hook that it is done, and the hook waits for that without end.
 */
public class Receiver {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer";

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(args[0])) {
            properties.load(file);
        }
        properties.put("key.deserializer", BYTES);
        properties.put("value.deserializer", BYTES);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        consumer.subscribe(Collections.singleton(args[1]));
        try {
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println(record.offset());
                }
            }
        } catch (KafkaException e) {
            System.out.println(e.getClass().getSimpleName());
        }
        // Without close(): it would ask for the group once more, with what is refused.
        Runtime.getRuntime().halt(0);
    }
}
