package judge;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * mqadmin command after command in one process. What a command prints is captured; what it leaves behind (its list of commands,
 * which it fills anew each time, and the name server it was told) is wiped before the next. A command that calls
 * System.exit ends the process, after the shutdown hook has answered with what was printed.
 */
public final class Admin {
    private static final String NAME_SERVER = "rocketmq.namesrv.addr";
    private static ByteArrayOutputStream out;
    private static ByteArrayOutputStream err;

    private Admin() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream standardError = System.err;
        Haste.watch(Thread.currentThread());
        Conversation conversation = Conversation.open();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (out != null) {
                conversation.answer(printed(true));
            }
        }));
        conversation.serve(Map.of("run", request -> {
            forget();
            capture();
            try {
                MQAdminStartup.main0(request.texts("words").toArray(String[]::new), null);
                return printed(false);
            } finally {
                out = null;
                System.setOut(standardError);
                System.setErr(standardError);
            }
        }));
    }

    private static void capture() {
        err = new ByteArrayOutputStream();
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        out = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
    }

    private static Map<String, Object> printed(boolean exited) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
        answer.put("exited", exited);
        return answer;
    }

    private static void forget() throws IllegalAccessException {
        System.clearProperty(NAME_SERVER);
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
