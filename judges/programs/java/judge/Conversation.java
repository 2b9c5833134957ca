package judge;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * One request a line in, one answer a line out, both JSON objects. An answer line begins with ANSWER, so that whatever else a
 * client library prints is told apart. System.out is pointed at standard error for the same reason. The end of the
 * input ends the process: a judge never outlives whoever started it.
 */
final class Conversation {
    private static final String ANSWER = "@answer ";

    /** What a verb does with a request. */
    interface Verb {
        Map<String, Object> act(Request request) throws Exception;
    }

    /** Said by a verb that this client cannot do. */
    static final class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unsupported(String what) {
            super(what);
        }
    }

    private final PrintStream answers;
    private final BufferedReader requests;

    private Conversation(PrintStream answers, BufferedReader requests) {
        this.answers = answers;
        this.requests = requests;
    }

    static Conversation open() {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        return new Conversation(answers, new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
    }

    void serve(Map<String, Verb> verbs) throws IOException {
        for (String line; (line = requests.readLine()) != null; ) {
            answer(attempt(verbs, line));
        }
    }

    private static Map<String, Object> attempt(Map<String, Verb> verbs, String line) {
        try {
            Request request = new Request(line);
            Verb verb = verbs.get(request.text("verb"));
            if (verb == null) {
                throw new Unsupported("this client has no verb " + request.text("verb"));
            }
            return verb.act(request);
        } catch (Unsupported lacking) {
            return failure("unsupported", lacking.getMessage());
        } catch (Exception | LinkageError broken) {
            broken.printStackTrace();
            return failure("error", broken.toString());
        }
    }

    private static Map<String, Object> failure(String kind, String why) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put(kind, why);
        return answer;
    }

    synchronized void answer(Map<String, Object> answer) {
        answers.println(ANSWER + RemotingSerializable.toJson(answer, false));
        answers.flush();
    }
}
