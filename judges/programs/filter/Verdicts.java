import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * Says for every line of its input what Apache's SQL92 filter says.
 *
 * A line is words of base64: the expression, then names and values of properties in turn. An answer is TRUE, FALSE,
 * NULL, ERROR (the evaluation threw) or REFUSED (the expression does not compile).
 */
public final class Verdicts {
    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(verdict(line.split(" ", -1)));
        }
        output.flush();
    }

    private static String verdict(String[] words) {
        Map<String, String> properties = new HashMap<>();
        for (int i = 1; i + 1 < words.length; i += 2) {
            properties.put(decoded(words[i]), decoded(words[i + 1]));
        }
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(decoded(words[0]));
        } catch (MQFilterException refused) {
            return "REFUSED";
        }
        try {
            Object value = expression.evaluate(new Message(properties));
            return value == null ? "NULL" : value.equals(Boolean.TRUE) ? "TRUE" : "FALSE";
        } catch (Throwable error) {
            return "ERROR";
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static final class Message implements EvaluationContext {
        private final Map<String, String> properties;

        Message(Map<String, String> properties) {
            this.properties = properties;
        }

        @Override
        public Object get(String name) {
            return properties.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return new HashMap<>(properties);
        }
    }
}
