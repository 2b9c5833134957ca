import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.nio.ByteBuffer;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * The loads of the arena that Apache's own benchmark programs do not offer, with the stock client as its users have it.
 *
 * <pre>
 * Load async     NAME_SERVER TOPIC BYTES IN_FLIGHT    one producer, so many sends not answered yet
 * Load producers NAME_SERVER TOPIC BYTES COUNT        so many producers, a connection each, one send at a time each
 * Load latency   NAME_SERVER TOPIC BYTES RATE         so many messages a second, the time from send to consumer
 * Load transactions NAME_SERVER TOPIC BYTES THREADS   one producer, so many threads, each transaction committed at once
 * </pre>
 *
 * A line a second: {@code sent N failed N}. For latency in addition {@code latency_us V V V},
 * each value of the second before.
 */
public final class Load {
    private static final LongAdder SENT = new LongAdder();
    private static final LongAdder FAILED = new LongAdder();
    private static final ConcurrentLinkedQueue<Long> DELAYS_US = new ConcurrentLinkedQueue<>();

    private Load() {
    }

    public static void main(String[] words) throws Exception {
        String nameServer = words[1];
        String topic = words[2];
        byte[] body = new byte[Integer.parseInt(words[3])];
        Arrays.fill(body, (byte) 'x');
        int number = Integer.parseInt(words[4]);
        switch (words[0]) {
            case "async" -> async(producer(nameServer, 0), topic, body, number);
            case "producers" -> producers(nameServer, topic, body, number);
            case "latency" -> latency(nameServer, topic, body, number);
            case "transactions" -> transactions(nameServer, topic, body, number);
            default -> throw new IllegalArgumentException("no load is called " + words[0]);
        }
        report();
    }

    /** Signs requests if the environment names an account. */
    private static RPCHook keys() {
        String user = System.getenv("LOAD_ACCESS_KEY");
        return user == null ? null : new AclClientRPCHook(new SessionCredentials(user, System.getenv("LOAD_SECRET_KEY")));
    }

    private static DefaultMQProducer producer(String nameServer, int number) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("arena", keys());
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("arena-" + number);
        producer.start();
        return producer;
    }

    private static void async(DefaultMQProducer producer, String topic, byte[] body, int inFlight) {
        Semaphore room = new Semaphore(inFlight);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                SENT.increment();
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                FAILED.increment();
                room.release();
            }
        };
        start(() -> {
            room.acquireUninterruptibly();
            producer.send(new Message(topic, body), callback);
        });
    }

    private static void producers(String nameServer, String topic, byte[] body, int count) throws Exception {
        List<DefaultMQProducer> all = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            all.add(producer(nameServer, number));
        }
        for (DefaultMQProducer producer : all) {
            start(() -> {
                producer.send(new Message(topic, body));
                SENT.increment();
            });
        }
    }

    private static void latency(String nameServer, String topic, byte[] body, int rate) throws Exception {
        String group = "arena-" + topic + "-" + System.currentTimeMillis();
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(group, keys(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(nameServer);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            for (var message : messages) {
                DELAYS_US.add((now - ByteBuffer.wrap(message.getBody()).getLong()) / 1000);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = producer(nameServer, 0);
        long[] due = {System.nanoTime()};
        start(() -> {
            due[0] += 1_000_000_000L / rate;
            while (System.nanoTime() < due[0]) {
                LockSupport.parkNanos(due[0] - System.nanoTime());
            }
            byte[] own = body.clone();
            ByteBuffer.wrap(own).putLong(System.nanoTime());
            producer.send(new Message(topic, own));
            SENT.increment();
        });
    }

    private static void transactions(String nameServer, String topic, byte[] body, int threads) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("arena-transactions");
        producer.setNamesrvAddr(nameServer);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        for (int number = 0; number < threads; number++) {
            start(() -> {
                producer.sendMessageInTransaction(new Message(topic, body), null);
                SENT.increment();
            });
        }
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
                    FAILED.increment();
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void report() throws InterruptedException {
        while (true) {
            Thread.sleep(1000);
            System.out.printf("sent %d failed %d%n", SENT.sum(), FAILED.sum());
            StringBuilder line = new StringBuilder("latency_us");
            for (Long delay = DELAYS_US.poll(); delay != null; delay = DELAYS_US.poll()) {
                line.append(' ').append(delay);
            }
            System.out.println(line);
            System.out.flush();
        }
    }
}
