package judge;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Arrays;

/** Runs another main class, and ends the process when standard input closes: no server outlives whoever started it. */
public final class Launch {
    private Launch() {
    }

    public static void main(String[] arguments) throws Exception {
        Thread watch = new Thread(Launch::endWithInput, "end-with-input");
        watch.setDaemon(true);
        watch.start();
        String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
        Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }

    private static void endWithInput() {
        try {
            System.in.transferTo(OutputStream.nullOutputStream());
        } catch (IOException closed) {
            // a broken pipe means the same as its end
        }
        Runtime.getRuntime().halt(0);
    }
}
