package judge;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** One line of JSON, read by name with a default for what is absent. */
final class Request {
    private final Map<?, ?> members;

    Request(String line) {
        members = RemotingSerializable.fromJson(line, Map.class);
    }

    String text(String name) {
        Object value = members.get(name);
        return value == null ? "" : value.toString();
    }

    int number(String name, int absent) {
        Object value = members.get(name);
        return value == null ? absent : ((Number) value).intValue();
    }

    boolean flag(String name) {
        return Boolean.TRUE.equals(members.get(name));
    }

    List<String> texts(String name) {
        List<String> texts = new ArrayList<>();
        if (members.get(name) instanceof List<?> values) {
            values.forEach(value -> texts.add(value.toString()));
        }
        return texts;
    }

    Map<String, String> pairs(String name) {
        Map<String, String> pairs = new LinkedHashMap<>();
        if (members.get(name) instanceof Map<?, ?> values) {
            values.forEach((key, value) -> pairs.put(key.toString(), value.toString()));
        }
        return pairs;
    }
}
