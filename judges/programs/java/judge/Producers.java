package judge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Producers that send by themselves, one message after the other, each in a thread, until they are halted. */
final class Producers {
    private static final long AFTER_A_FAILURE_MS = 20;
    private static final int ERRORS_KEPT = 5;
    private static final int CLIENT_ROUTE_MS = 30_000;

    private final Map<Integer, Running> running = new HashMap<>();
    private int handles;

    Map<String, Object> produce(Request request) throws MQClientException {
        int handle = ++handles;
        DefaultMQProducer producer = new DefaultMQProducer(request.text("group"));
        producer.setNamesrvAddr(request.text("name_server"));
        producer.setInstanceName("producer-" + handle + "-" + ProcessHandle.current().pid());
        producer.setPollNameServerInterval(request.number("route_ms", CLIENT_ROUTE_MS));
        producer.setSendMsgTimeout(request.number("timeout_ms", 3000));
        producer.setRetryTimesWhenSendFailed(request.number("retries", 2));
        producer.start();
        Running one = new Running(request, producer, handle);
        running.put(handle, one);
        one.start();
        return Map.of("handle", handle);
    }

    Map<String, Object> progress(Request request) {
        return find(request).progress();
    }

    Map<String, Object> halt(Request request) throws InterruptedException {
        Running one = find(request);
        running.values().remove(one);
        return one.halt();
    }

    void reset() throws InterruptedException {
        for (Running one : running.values()) {
            one.halt();
        }
        running.clear();
    }

    private Running find(Request request) {
        int handle = request.number("handle", 0);
        if (!running.containsKey(handle)) {
            throw new IllegalArgumentException("no running producer " + handle);
        }
        return running.get(handle);
    }

    /** One producer: message after message, where each is that was acknowledged, and which were not. */
    private static final class Running extends Thread {
        private final Request request;
        private final DefaultMQProducer producer;
        private final List<Object[]> acks = new ArrayList<>();
        private final List<Integer> failed = new ArrayList<>();
        private final List<String> errors = new ArrayList<>();
        private volatile boolean halted;

        Running(Request request, DefaultMQProducer producer, int handle) {
            super("producer-" + handle);
            this.request = request;
            this.producer = producer;
        }

        @Override
        public void run() {
            int pause = request.number("pause_ms", 0);
            try {
                for (int index = 0; !halted; index++) {
                    Thread.sleep(attempt(index) ? pause : AFTER_A_FAILURE_MS);
                }
            } catch (InterruptedException ended) {
                interrupt();
            }
        }

        private boolean attempt(int index) throws InterruptedException {
            byte[] body = Payload.body(request.text("prefix"), index, request.number("size", 0));
            try {
                SendResult result = send(new Message(request.text("topic"), body), index);
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    throw new IllegalStateException(result.getSendStatus().name());
                }
                acknowledged(index, result);
                return true;
            } catch (InterruptedException ended) {
                throw ended;
            } catch (Exception refused) {
                failed(index, refused);
                return false;
            }
        }

        private SendResult send(Message message, int index) throws Exception {
            int shards = request.number("shards", 0);
            return shards == 0 ? producer.send(message) : producer.send(message,
                (queues, sent, shard) -> queues.get((Integer) shard % queues.size()), index % shards);
        }

        private synchronized void acknowledged(int index, SendResult result) {
            String broker = result.getMessageQueue().getBrokerName();
            acks.add(new Object[] {index, broker, result.getMessageQueue().getQueueId(), result.getQueueOffset()});
        }

        private synchronized void failed(int index, Exception refused) {
            failed.add(index);
            if (errors.size() < ERRORS_KEPT) {
                errors.add(refused.toString());
            }
        }

        synchronized Map<String, Object> progress() {
            return Map.of("acknowledged", acks.size(), "failed", failed.size());
        }

        Map<String, Object> halt() throws InterruptedException {
            halted = true;
            join();
            producer.shutdown();
            synchronized (this) {
                return Map.of("acks", acks, "failed", failed, "errors", errors);
            }
        }
    }
}
