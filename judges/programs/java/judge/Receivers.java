package judge;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** Running consumers by handle, each with the deliveries it has seen. */
final class Receivers {
    private static final long LITE_POLL_MS = 100;

    private final Map<Integer, Receiver> running = new HashMap<>();
    private int handles;

    /** One consumer: how to end it, and what it saw. */
    private record Receiver(Deliveries deliveries, Runnable shutdown) {
    }

    Map<String, Object> subscribe(Request request) throws Exception {
        int handle = ++handles;
        Receiver receiver = switch (request.text("kind")) {
            case "push" -> push(request, handle);
            case "lite" -> lite(request, handle);
            case "pull" -> pull(request, handle);
            default -> throw new Conversation.Unsupported("no consumer of kind " + request.text("kind"));
        };
        running.put(handle, receiver);
        return Map.of("handle", handle);
    }

    Map<String, Object> collect(Request request) throws InterruptedException {
        return running(request).deliveries().collect(request);
    }

    Map<String, Object> count(Request request) {
        return running(request).deliveries().count();
    }

    Map<String, Object> close(Request request) {
        Receiver receiver = running(request);
        running.values().remove(receiver);
        receiver.shutdown().run();
        return Map.of();
    }

    private Receiver running(Request request) {
        int handle = request.number("handle", 0);
        if (!running.containsKey(handle)) {
            throw new IllegalArgumentException("no running consumer " + handle);
        }
        return running.get(handle);
    }

    void reset() {
        running.values().forEach(receiver -> receiver.shutdown().run());
        running.clear();
    }

    private static Receiver push(Request request, int handle) throws Exception {
        Deliveries seen = new Deliveries(request);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(request.text("group"), Keys.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(request.text("name_server"));
        consumer.setInstanceName(instance(request, handle));
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(where(request));
        if (!request.text("timestamp").isEmpty()) {
            consumer.setConsumeTimestamp(request.text("timestamp"));
        }
        if (request.flag("broadcast")) {
            consumer.setMessageModel(Enum.valueOf(consumer.getMessageModel().getDeclaringClass(), "BROADCASTING"));
        }
        if (request.number("max_reconsume", -1) >= 0) {
            consumer.setMaxReconsumeTimes(request.number("max_reconsume", -1));
        }
        consumer.subscribe(request.text("topic"), selector(request));
        listen(consumer, request, seen);
        consumer.start();
        return new Receiver(seen, consumer::shutdown);
    }

    private static void listen(DefaultMQPushConsumer consumer, Request request, Deliveries seen) {
        if (request.flag("ordered")) {
            consumer.setSuspendCurrentQueueTimeMillis(100);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> seen.all(messages)
                ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
            return;
        }
        int level = request.number("retry_level", 0);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(level);
            return seen.all(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
    }

    private static Receiver lite(Request request, int handle) throws MQClientException {
        Deliveries seen = new Deliveries(request);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(request.text("group"), Keys.hook());
        consumer.setNamesrvAddr(request.text("name_server"));
        consumer.setInstanceName(instance(request, handle));
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(where(request));
        consumer.subscribe(request.text("topic"), selector(request));
        consumer.start();
        AtomicBoolean ended = new AtomicBoolean();
        Thread poller = new Thread(() -> {
            while (!ended.get()) {
                seen.all(consumer.poll(LITE_POLL_MS));
            }
            consumer.shutdown();
        }, "lite-" + handle);
        poller.start();
        return new Receiver(seen, () -> {
            ended.set(true);
            join(poller);
        });
    }

    /** The old pull consumer: every pull names its queue and offset and carries its expression. */
    private static Receiver pull(Request request, int handle) throws MQClientException {
        Deliveries seen = new Deliveries(request);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(request.text("group"), Keys.hook());
        consumer.setNamesrvAddr(request.text("name_server"));
        consumer.setInstanceName(instance(request, handle));
        consumer.start();
        AtomicBoolean ended = new AtomicBoolean();
        Thread poller = new Thread(() -> {
            Map<MessageQueue, Long> offsets = new HashMap<>();
            while (!ended.get()) {
                try {
                    for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(request.text("topic"))) {
                        PullResult result = consumer.pull(queue, selector(request), offsets.getOrDefault(queue, 0L), 32);
                        offsets.put(queue, result.getNextBeginOffset());
                        if (result.getPullStatus() == PullStatus.FOUND) {
                            seen.all(result.getMsgFoundList());
                        }
                    }
                    Thread.sleep(LITE_POLL_MS);
                } catch (Exception failed) {
                    System.err.println("pull: " + failed);
                }
            }
            consumer.shutdown();
        }, "pull-" + handle);
        poller.start();
        return new Receiver(seen, () -> {
            ended.set(true);
            join(poller);
        });
    }

    private static void join(Thread poller) {
        try {
            poller.join();
        } catch (InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
    }

    private static ConsumeFromWhere where(Request request) {
        return switch (request.text("start")) {
            case "last" -> ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET;
            case "timestamp" -> ConsumeFromWhere.CONSUME_FROM_TIMESTAMP;
            default -> ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET;
        };
    }

    private static MessageSelector selector(Request request) {
        String expression = request.text("expression");
        return request.flag("sql") ? MessageSelector.bySql(expression) : MessageSelector.byTag(expression);
    }

    private static String instance(Request request, int handle) {
        String given = request.text("instance");
        return given.isEmpty() ? "receiver-" + handle + "-" + ProcessHandle.current().pid() : given;
    }
}
