package judge;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;

/** Every delivery to one consumer, in the order in which the listener saw it, and which of them it refused. */
final class Deliveries {
    private final int failures;
    private final boolean properties;
    private final List<Map<String, Object>> seen = new ArrayList<>();
    private int successes;

    Deliveries(Request request) {
        failures = request.number("failures", 0);
        properties = request.flag("with_properties");
    }

    /** Notes all messages; false when one of them is to be delivered again. */
    synchronized boolean all(List<MessageExt> messages) {
        boolean whole = true;
        for (MessageExt message : messages) {
            boolean failed = message.getReconsumeTimes() < failures;
            whole &= !failed;
            successes += failed ? 0 : 1;
            seen.add(described(message, failed));
        }
        notifyAll();
        return whole;
    }

    /** Waits for a number of messages (or of deliveries, refused ones too), then a little longer for what should not come. */
    synchronized Map<String, Object> collect(Request request) throws InterruptedException {
        long deadline = System.currentTimeMillis() + request.number("timeout_ms", 30_000);
        int wanted = request.number("count", 1);
        boolean deliveries = request.flag("deliveries");
        while ((deliveries ? seen.size() : successes) < wanted && System.currentTimeMillis() < deadline) {
            wait(Math.max(1, deadline - System.currentTimeMillis()));
        }
        long settled = System.currentTimeMillis() + request.number("settle_ms", 0);
        while (System.currentTimeMillis() < settled) {
            wait(Math.max(1, settled - System.currentTimeMillis()));
        }
        return Map.of("deliveries", new ArrayList<>(seen));
    }

    synchronized Map<String, Object> count() {
        return Map.of("deliveries", seen.size(), "accepted", successes);
    }

    private Map<String, Object> described(MessageExt message, boolean failed) {
        Map<String, Object> delivery = new LinkedHashMap<>();
        delivery.put("digest", Payload.digest(message.getBody()));
        delivery.put("size", message.getBody().length);
        delivery.put("broker", message.getBrokerName());
        delivery.put("queue", message.getQueueId());
        delivery.put("offset", message.getQueueOffset());
        delivery.put("tag", message.getTags());
        delivery.put("keys", message.getKeys());
        delivery.put("times", message.getReconsumeTimes());
        delivery.put("born_ms", message.getBornTimestamp());
        delivery.put("stored_ms", message.getStoreTimestamp());
        delivery.put("seen_ms", System.currentTimeMillis());
        delivery.put("failed", failed);
        if (properties) {
            delivery.put("properties", message.getProperties());
        }
        return delivery;
    }
}
