import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.common.utils.Exit;

/**
 * One warm JVM that runs main classes of Kafka's tools, one after the other, on behalf of a test run.
 *
 * Request on stdin:   main class, number of arguments, arguments (DataOutputStream.writeUTF), stdin (int size + bytes).
 * Answer on stdout:   exit code, stdout (int size + bytes), stderr (int size + bytes).
 */
public final class ToolRunner {
    private static final class ExitCalled extends Error {
        ExitCalled(int code) {
            super("exit " + code, null, false, false);
        }
    }

    /** A stream whose target changes from run to run: libraries keep the stream they saw first. */
    private static final class Switch extends OutputStream {
        volatile ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public void write(int b) {
            target.write(b);
        }

        @Override
        public void write(byte[] b, int off, int len) {
            target.write(b, off, len);
        }
    }

    private static final class StdinSwitch extends InputStream {
        volatile InputStream source = InputStream.nullInputStream();

        @Override
        public int read() throws IOException {
            return source.read();
        }

        @Override
        public int read(byte[] b, int off, int len) throws IOException {
            return source.read(b, off, len);
        }

        @Override
        public int available() throws IOException {
            return source.available();
        }
    }

    private static final Switch OUT = new Switch();
    private static final Switch ERR = new Switch();
    private static final StdinSwitch IN = new StdinSwitch();
    private static final AtomicReference<Integer> CODE = new AtomicReference<>();
    private static final List<Runnable> HOOKS = new CopyOnWriteArrayList<>();

    public static void main(String[] args) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        System.setIn(IN);
        Exit.setExitProcedure(ToolRunner::exit);
        Exit.setHaltProcedure(ToolRunner::exit);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        while (true) {
            String mainClass;
            try {
                mainClass = requests.readUTF();
            } catch (EOFException e) {
                Runtime.getRuntime().halt(0);
                return;
            }
            String[] arguments = new String[requests.readInt()];
            for (int i = 0; i < arguments.length; i++)
                arguments[i] = requests.readUTF();
            byte[] stdin = requests.readNBytes(requests.readInt());
            int code = run(mainClass, arguments, stdin);
            answers.writeInt(code);
            for (Switch stream : List.of(OUT, ERR)) {
                byte[] bytes = stream.target.toByteArray();
                answers.writeInt(bytes.length);
                answers.write(bytes);
            }
            answers.flush();
        }
    }

    private static void exit(int code, String message) {
        CODE.compareAndSet(null, code);
        if (message != null)
            System.err.println(message);
        throw new ExitCalled(code);
    }

    private static int run(String mainClass, String[] arguments, byte[] stdin) throws InterruptedException {
        OUT.target = new ByteArrayOutputStream();
        ERR.target = new ByteArrayOutputStream();
        // Fresh ones: Kafka's metadata shell closes the one that it printed to.
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        IN.source = new ByteArrayInputStream(stdin);
        CODE.set(null);
        HOOKS.clear();
        Thread thread = new Thread(() -> call(mainClass, arguments), "main");
        thread.start();
        thread.join();
        for (Runnable hook : HOOKS) {
            try {
                hook.run();
            } catch (ExitCalled e) {
                // the code is kept; the other hooks still run
            }
        }
        System.out.flush();
        System.err.flush();
        Integer code = CODE.get();
        return code == null ? 0 : code;
    }

    private static void call(String mainClass, String[] arguments) {
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof ExitCalled)) {
                e.getCause().printStackTrace();
                CODE.compareAndSet(null, 1);
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            CODE.compareAndSet(null, 1);
        }
    }
}
