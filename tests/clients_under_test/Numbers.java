import java.io.FileReader;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** java Numbers PROPERTIES_FILE TOPIC; compiled against the oldest client that it runs with. */
public class Numbers {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        try (FileReader file = new FileReader(words[0])) {
            settings.load(file);
        }
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        settings.put("max.block.ms", "10000");
        settings.put("enable.idempotence", "true");
        StringSerializer text = new StringSerializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text);
        for (long number = 0;; number++) {
            Future<?> told = producer.send(new ProducerRecord<>(words[1], Long.toString(number)), (done, error) -> {
                if (error != null) {
                    System.err.println("not delivered: " + error);
                    Runtime.getRuntime().halt(1);
                }
            });
            if (told.isDone()) {
                told.get();
            }
            Thread.sleep(20);
        }
    }
}
