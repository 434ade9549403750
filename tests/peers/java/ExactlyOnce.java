// Reads what is committed, and writes it on in transactions that hold the offsets too: java ExactlyOnce FILE IN OUT COUNT
//
// The first attempt is aborted and made again, and in the end a second producer of the same transactional id fences the
// first. One line for each thing that happened is printed.

import java.io.FileInputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class ExactlyOnce {
    public static void main(String[] args) throws Exception {
        Properties common = new Properties();
        try (FileInputStream file = new FileInputStream(args[0])) {
            common.load(file);
        }
        String in = args[1];
        String out = args[2];
        int count = Integer.parseInt(args[3]);
        try (KafkaProducer<String, String> source = producer(common, in + "-source");
                KafkaProducer<String, String> producer = producer(common, in + "-processor");
                KafkaConsumer<String, String> consumer = consumer(common, in + "-group")) {
            fill(source, in, count);
            producer.initTransactions();
            consumer.subscribe(List.of(in));
            boolean aborted = false;
            for (int done = 0; done < count; ) {
                List<ConsumerRecord<String, String>> records = new ArrayList<>();
                consumer.poll(Duration.ofSeconds(1)).forEach(records::add);
                if (records.isEmpty())
                    continue;
                if (!aborted) {
                    attempt(producer, consumer, records, out, "lost ");
                    producer.abortTransaction();
                    aborted = true;
                    System.out.println("aborted");
                }
                attempt(producer, consumer, records, out, "kept ");
                producer.commitTransaction();
                done += records.size();
            }
            System.out.println("committed " + consumer.committed(java.util.Set.of(new TopicPartition(in, 0))).values());
            fence(common, producer, in, out);
        }
    }

    private static KafkaProducer<String, String> producer(Properties common, String transactionalId) {
        Properties own = new Properties();
        own.putAll(common);
        own.put("transactional.id", transactionalId);
        return new KafkaProducer<>(own, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Properties common, String group) {
        Properties own = new Properties();
        own.putAll(common);
        own.put("group.id", group);
        own.put("isolation.level", "read_committed");
        own.put("enable.auto.commit", "false");
        own.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(own, new StringDeserializer(), new StringDeserializer());
    }

    /** As many records as wanted in one transaction, and as many more in one that is aborted. */
    private static void fill(KafkaProducer<String, String> source, String in, int count) {
        source.initTransactions();
        for (String kind : List.of("aborted", "committed")) {
            source.beginTransaction();
            for (int i = 0; i < count; i++)
                source.send(new ProducerRecord<>(in, 0, null, kind + " " + i));
            source.flush();
            if (kind.equals("aborted"))
                source.abortTransaction();
            else
                source.commitTransaction();
        }
    }

    private static void attempt(
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer,
            List<ConsumerRecord<String, String>> records,
            String out,
            String prefix) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>(out, 0, null, prefix + record.value()));
            offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }

    private static void fence(Properties common, KafkaProducer<String, String> zombie, String in, String out)
            throws Exception {
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>(out, 0, null, "by a zombie")).get();
        try (KafkaProducer<String, String> successor = producer(common, in + "-processor")) {
            successor.initTransactions();
            try {
                zombie.commitTransaction();
                System.out.println("not fenced");
            } catch (ProducerFencedException | InvalidProducerEpochException e) {
                System.out.println("fenced");
            } catch (KafkaException e) {
                System.out.println("fenced by " + e.getClass().getName());
            }
            successor.beginTransaction();
            successor.send(new ProducerRecord<>(out, 0, null, "by a successor"));
            successor.commitTransaction();
        }
    }
}
