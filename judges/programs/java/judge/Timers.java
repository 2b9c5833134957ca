package judge;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Messages for a time, and taking them back: calls that 5.x alone has, so they are looked up by name. */
final class Timers {
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();

    /** Sends messages after calling one of setDelayTimeSec, setDelayTimeMs and setDeliverTimeMs; answers with their handles. */
    Map<String, Object> timed(Request request) throws Exception {
        DefaultMQProducer producer = producer(request);
        long value = Long.parseLong(request.text("value"));
        List<String> handles = new ArrayList<>();
        for (int index = 0; index < request.number("count", 1); index++) {
            Message message = new Message(request.text("topic"), Payload.body(request.text("prefix"), index, 0));
            called(message, request.text("setter"), new Class<?>[] {long.class}, value);
            SendResult result = producer.send(message);
            Object handle = called(result, "getRecallHandle", new Class<?>[] {});
            handles.add(handle == null ? "" : handle.toString());
        }
        return Map.of("handles", handles);
    }

    Map<String, Object> recall(Request request) throws Exception {
        Class<?>[] texts = {String.class, String.class};
        Object id = called(producer(request), "recallMessage", texts, request.text("topic"), request.text("handle"));
        return Map.of("id", id.toString());
    }

    void reset() {
        producers.values().forEach(DefaultMQProducer::shutdown);
        producers.clear();
    }

    private static Object called(Object on, String name, Class<?>[] types, Object... values) throws Exception {
        try {
            return on.getClass().getMethod(name, types).invoke(on, values);
        } catch (NoSuchMethodException absent) {
            throw new Conversation.Unsupported("this version has no " + name);
        } catch (InvocationTargetException refused) {
            if (refused.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw refused;
        }
    }

    private DefaultMQProducer producer(Request request) throws MQClientException {
        String key = request.text("name_server") + " " + request.text("group");
        if (!producers.containsKey(key)) {
            DefaultMQProducer producer = new DefaultMQProducer(request.text("group"));
            producer.setNamesrvAddr(request.text("name_server"));
            producer.setInstanceName("timers-" + Integer.toHexString(key.hashCode()) + "-" + ProcessHandle.current().pid());
            producer.setPollNameServerInterval(1000);
            producer.setSendMsgTimeout(10_000);
            producer.start();
            producers.put(key, producer);
        }
        return producers.get(key);
    }
}
