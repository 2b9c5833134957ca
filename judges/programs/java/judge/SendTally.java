package judge;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.producer.SendResult;

/** What became of every message of one send request. */
final class SendTally {
    private static final int ERRORS_KEPT = 5;

    private final long start = System.nanoTime();
    private final Map<String, Integer> statuses = new TreeMap<>();
    private final Map<String, Integer> queues = new TreeMap<>();
    private final List<Integer> failed = new ArrayList<>();
    private final List<String> errors = new ArrayList<>();

    /** A null result is a message handed over without waiting: nothing is known of it yet. */
    void sent(int index, SendResult result) {
        if (result != null) {
            sentMany(1, result);
        }
    }

    synchronized void sentMany(int count, SendResult result) {
        statuses.merge(result.getSendStatus().name(), count, Integer::sum);
        if (result.getMessageQueue() != null) {
            String queue = result.getMessageQueue().getBrokerName() + ":" + result.getMessageQueue().getQueueId();
            queues.merge(queue, count, Integer::sum);
        }
    }

    synchronized void failed(int index, Throwable refused) {
        failed.add(index);
        if (errors.size() < ERRORS_KEPT) {
            errors.add(refused.toString());
        }
    }

    synchronized Map<String, Object> answer() {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("statuses", statuses);
        answer.put("queues", queues);
        answer.put("failed", failed);
        answer.put("errors", errors);
        answer.put("elapsed_ms", (System.nanoTime() - start) / 1_000_000);
        return answer;
    }
}
