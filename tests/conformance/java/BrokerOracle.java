import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * What a real broker would say, behind lines of text, one question and one answer a line; "!" begins an answer that failed.
 *
 * refuse API VERSION CODE HEX       the response to the request when it failed with that error
 * error CODE                        name, and whether Java retries
 * api KEY                           name, versions, listeners, forwardable, cluster action
 * read HEX                          the records of the batches, one "offset timestamp key value headers" each
 * write CODEC LEVEL HEX             a batch with one record of that value for each of ten offsets
 */
public final class BrokerOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" ", -1));
            } catch (Throwable e) {
                Throwable cause = e.getCause() == null ? e : e.getCause();
                answer = "! " + String.valueOf(cause).replace('\n', ' ');
            }
            out.println(answer);
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "refuse":
                return refuse(ApiKeys.forId(Short.parseShort(words[1])), Short.parseShort(words[2]),
                    Errors.forCode(Short.parseShort(words[3])), bytes(words[4]));
            case "error":
                Errors error = Errors.forCode(Short.parseShort(words[1]));
                return error + " " + (error.exception() instanceof RetriableException);
            case "api":
                return api(ApiKeys.forId(Short.parseShort(words[1])));
            case "read":
                return read(bytes(words[1]));
            case "write":
                return write(words[1], words[2], words[3]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static ByteBuffer bytes(String hex) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hex));
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] written = new byte[message.size(cache, version)];
        ByteBuffer into = ByteBuffer.wrap(written);
        message.write(new ByteBufferAccessor(into), cache, version);
        if (into.hasRemaining())
            throw new IllegalStateException("wrote less than it said");
        return HexFormat.of().formatHex(written);
    }

    private static String refuse(ApiKeys api, short version, Errors error, ByteBuffer bytes) {
        AbstractResponse response = AbstractRequest.parseRequest(api, version, new ByteBufferAccessor(bytes))
            .request.getErrorResponse(77, error.exception());
        return response == null ? "none" : hex(response.data(), version);
    }

    private static String api(ApiKeys api) {
        StringBuilder listeners = new StringBuilder();
        for (ApiMessageType.ListenerType listener : ApiMessageType.ListenerType.values())
            if (api.inScope(listener))
                listeners.append(',').append(listener.name().toLowerCase());
        return api.name + " " + api.oldestVersion() + " " + api.latestVersion(false) + " " + api.latestVersion(true)
            + " " + (listeners.isEmpty() ? "" : listeners.substring(1)) + " " + api.forwardable + " " + api.clusterAction
            + " " + api.requestHeaderVersion(api.latestVersion()) + " " + api.responseHeaderVersion(api.latestVersion());
    }

    private static String read(ByteBuffer bytes) {
        StringBuilder out = new StringBuilder();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            batch.ensureValid();
            out.append("batch ").append(batch.baseOffset()).append(' ').append(batch.lastOffset()).append(' ')
                .append(batch.maxTimestamp()).append(' ').append(batch.producerId()).append(' ')
                .append(batch.producerEpoch()).append(' ').append(batch.lastSequence()).append(' ')
                .append(batch.isTransactional()).append(' ').append(batch.isControlBatch()).append(' ')
                .append(batch.partitionLeaderEpoch()).append(' ').append(batch.compressionType()).append(';');
            for (Record record : batch) {
                record.ensureValid();
                out.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                    .append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers())
                    out.append(' ').append(header.key()).append('=')
                        .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                out.append(';');
            }
        }
        return out.toString();
    }

    private static String hex(ByteBuffer value) {
        if (value == null)
            return "null";
        byte[] copy = new byte[value.remaining()];
        value.duplicate().get(copy);
        return "0x" + HexFormat.of().formatHex(copy);
    }

    private static String write(String codec, String level, String value) {
        Compression compression;
        switch (codec) {
            case "gzip":
                compression = Compression.gzip().level(Integer.parseInt(level)).build();
                break;
            case "lz4":
                compression = Compression.lz4().level(Integer.parseInt(level)).build();
                break;
            case "zstd":
                compression = Compression.zstd().level(Integer.parseInt(level)).build();
                break;
            case "snappy":
                compression = Compression.snappy().build();
                break;
            default:
                compression = Compression.NONE;
        }
        SimpleRecord[] records = new SimpleRecord[10];
        for (int i = 0; i < records.length; i++)
            records[i] = new SimpleRecord(1000 + 7 * i, i % 3 == 0 ? null : ("k" + i).getBytes(),
                HexFormat.of().parseHex(value), new Header[] {new RecordHeader("h", new byte[] {1}), new RecordHeader("n", null)});
        return hex(MemoryRecords.withRecords(42L, compression, 5, records).buffer()).substring(2);
    }

}
