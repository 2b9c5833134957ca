package judge;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Producers, one per name server, group and kind, kept between requests; and the ways to send. */
final class Senders {
    private static final int WINDOW = 64;

    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private final Map<String, Undecided> undecided = new HashMap<>();

    /** One send of one message, or of one batch. */
    private interface Attempt {
        SendResult of(Message message, int index) throws Exception;
    }

    Map<String, Object> send(Request request) throws Exception {
        String mode = request.text("mode");
        DefaultMQProducer producer = mode.equals("transaction") ? transactional(request) : plain(request);
        producer.setSendMsgTimeout(request.number("timeout_ms", 3000));
        SendTally tally = new SendTally();
        int shards = request.number("shards", 1);
        switch (mode) {
            case "sync" -> each(request, tally, (message, index) -> producer.send(message));
            case "ordered" -> each(request, tally, (message, index) -> producer.send(message,
                (queues, sent, shard) -> queues.get((Integer) shard % queues.size()), index % shards));
            case "oneway" -> each(request, tally, (message, index) -> {
                producer.sendOneway(message);
                return null;
            });
            case "transaction" -> {
                List<String> outcomes = request.texts("outcomes");
                each(request, tally, (message, index) -> ((TransactionMQProducer) producer)
                    .sendMessageInTransaction(message, Undecided.state(outcomes.get(index % outcomes.size()))));
            }
            case "async" -> async(request, tally, producer);
            case "batch" -> batches(request, tally, producer);
            default -> throw new Conversation.Unsupported("the Java client does not send in mode " + mode);
        }
        return tally.answer();
    }

    Map<String, Object> checks(Request request) {
        Undecided listener = undecided.get(key(request, "transaction"));
        return Map.of("checks", listener == null ? 0 : listener.checks());
    }

    void reset() {
        producers.values().forEach(DefaultMQProducer::shutdown);
        producers.clear();
        undecided.clear();
    }

    private static void each(Request request, SendTally tally, Attempt attempt) {
        int first = request.number("first", 0);
        for (int index = first; index < first + request.number("count", 1); index++) {
            try {
                tally.sent(index, attempt.of(message(request, index), index));
            } catch (Exception refused) {
                tally.failed(index, refused);
            }
        }
    }

    private static void async(Request request, SendTally tally, DefaultMQProducer producer) throws Exception {
        Semaphore window = new Semaphore(WINDOW);
        each(request, tally, (message, index) -> {
            window.acquire();
            try {
                producer.send(message, told(tally, index, window));
            } catch (Exception refused) {
                window.release();
                throw refused;
            }
            return null;
        });
        if (!window.tryAcquire(WINDOW, request.number("patience_ms", 30_000), TimeUnit.MILLISECONDS)) {
            tally.failed(-1, new IllegalStateException("not every callback came"));
        }
    }

    private static SendCallback told(SendTally tally, int index, Semaphore window) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                tally.sent(index, result);
                window.release();
            }

            @Override
            public void onException(Throwable refused) {
                tally.failed(index, refused);
                window.release();
            }
        };
    }

    private static void batches(Request request, SendTally tally, DefaultMQProducer producer) {
        int first = request.number("first", 0);
        int end = first + request.number("count", 1);
        int size = request.number("batch", 32);
        for (int start = first; start < end; start += size) {
            List<Message> batch = new ArrayList<>();
            for (int index = start; index < Math.min(start + size, end); index++) {
                batch.add(message(request, index));
            }
            try {
                tally.sentMany(batch.size(), producer.send(batch));
            } catch (Exception refused) {
                for (int index = start; index < start + batch.size(); index++) {
                    tally.failed(index, refused);
                }
            }
        }
    }

    private static Message message(Request request, int index) {
        String prefix = request.text("prefix");
        Message message = new Message(request.text("topic"), Payload.body(prefix, index, request.number("size", 0)));
        List<String> tags = request.texts("tags");
        if (!tags.isEmpty()) {
            message.setTags(tags.get(index % tags.size()));
        }
        if (request.flag("keys")) {
            message.setKeys(prefix + "-" + index);
        }
        if (request.number("delay_level", 0) > 0) {
            message.setDelayTimeLevel(request.number("delay_level", 0));
        }
        request.pairs("properties").forEach(message::putUserProperty);
        return message;
    }

    private DefaultMQProducer plain(Request request) throws MQClientException {
        String key = key(request, "plain");
        DefaultMQProducer known = producers.get(key);
        return known != null ? known : started(request, key, new DefaultMQProducer(request.text("group"), Keys.hook()));
    }

    private DefaultMQProducer transactional(Request request) throws MQClientException {
        String key = key(request, "transaction");
        Undecided listener = undecided.computeIfAbsent(key, unused -> new Undecided());
        listener.decide(request.text("check"));
        if (producers.containsKey(key)) {
            return producers.get(key);
        }
        TransactionMQProducer producer = new TransactionMQProducer(request.text("group"), Keys.hook());
        producer.setTransactionListener(listener);
        return started(request, key, producer);
    }

    private DefaultMQProducer started(Request request, String key, DefaultMQProducer producer) throws MQClientException {
        producer.setNamesrvAddr(request.text("name_server"));
        producer.setInstanceName("sender-" + Integer.toHexString(key.hashCode()) + "-" + ProcessHandle.current().pid());
        producer.setPollNameServerInterval(1000);
        producer.start();
        producers.put(key, producer);
        return producer;
    }

    private static String key(Request request, String kind) {
        return request.text("name_server") + " " + request.text("group") + " " + kind;
    }
}
