import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * The stock client as its users have it: {@code Client ROW NAME_SERVER TOPIC BYTES IN_FLIGHT BATCH}. Prints how many
 * messages were acknowledged or received so far, a line every 100 ms.
 */
public final class Client {
    private static final AtomicLong DONE = new AtomicLong();

    private Client() {
    }

    public static void main(String[] words) throws Exception {
        String topic = words[2];
        byte[] body = new byte[Integer.parseInt(words[3])];
        Arrays.fill(body, (byte) 'x');
        int inFlight = Integer.parseInt(words[4]);
        int batch = Integer.parseInt(words[5]);
        if (words[0].equals("receive")) {
            receive(words[1], topic);
        } else {
            DefaultMQProducer producer = new DefaultMQProducer("bench");
            producer.setNamesrvAddr(words[1]);
            producer.start();
            switch (words[0]) {
                case "one" -> start(() -> {
                    producer.send(new Message(topic, body));
                    DONE.incrementAndGet();
                });
                case "async" -> async(producer, topic, body, inFlight);
                case "batch" -> {
                    for (int thread = 0; thread < 4; thread++) {
                        start(() -> {
                            List<Message> messages = new ArrayList<>();
                            for (int i = 0; i < batch; i++) {
                                messages.add(new Message(topic, body));
                            }
                            producer.send(messages);
                            DONE.addAndGet(batch);
                        });
                    }
                }
                default -> throw new IllegalArgumentException(words[0]);
            }
        }
        while (true) {
            System.out.println(DONE.get());
            System.out.flush();
            Thread.sleep(100);
        }
    }

    private static void async(DefaultMQProducer producer, String topic, byte[] body, int inFlight) {
        Semaphore room = new Semaphore(inFlight);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                DONE.incrementAndGet();
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                room.release();
            }
        };
        start(() -> {
            room.acquireUninterruptibly();
            producer.send(new Message(topic, body), callback);
        });
    }

    private static void receive(String nameServer, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-" + System.nanoTime());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            DONE.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void start(Step step) {
        Thread thread = new Thread(() -> {
            while (true) {
                try {
                    step.run();
                } catch (Exception error) {
                    // it is counted by not being counted
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
