import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * The stock client in the soak, with its own defaults.
 *
 * <pre>
 * Soak produce NAME_SERVER TOPIC FILE RATE BYTES    numbered messages at a rate; the numbers that were acknowledged
 * Soak consume NAME_SERVER TOPIC FILE GROUP         a member of a group; every delivery
 * </pre>
 *
 * A body begins with its number (8) and when it was sent (8, {@link System#nanoTime}, the machine's monotonic clock).
 * A record of the producer's file is a number (8), one of a consumer's file a number, when it was sent and when it
 * was seen (8 each), all big-endian. A record is with the kernel before the client is answered, so that it outlives a
 * process that is killed. SIGTERM ends either in order.
 */
public final class Soak {
    private static final int THREADS = 32;
    private static final long NS = 1_000_000_000L;
    private static final int STARTS = 10;
    private static final long AFTER_A_FAILURE_NS = 20_000_000L;
    private static volatile boolean ended;

    private Soak() {
    }

    public static void main(String[] words) throws Exception {
        FileOutputStream file = new FileOutputStream(Path.of(words[3]).toFile(), true);
        switch (words[0]) {
            case "produce" -> produce(words[1], words[2], file, Integer.parseInt(words[4]), Integer.parseInt(words[5]));
            case "consume" -> consume(words[1], words[2], file, words[4]);
            default -> throw new IllegalArgumentException("nobody is called " + words[0]);
        }
    }

    private static void consume(String nameServer, String topic, FileOutputStream file, String group) throws Exception {
        DefaultMQPushConsumer consumer = consumer(nameServer, topic, file, group);
        for (int attempt = 1; !started(consumer); attempt++) {
            if (attempt == STARTS) {
                throw new IllegalStateException("could not be started " + STARTS + " times");
            }
            consumer = consumer(nameServer, topic, file, group);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        System.out.println("started");
    }

    /** Whether it could be: on a machine with much to do the client gives up asking for routes, and is of no use then. */
    private static boolean started(DefaultMQPushConsumer consumer) {
        try {
            consumer.start();
            return true;
        } catch (Exception unready) {
            System.out.println(unready);
            consumer.shutdown();
            return false;
        }
    }

    private static DefaultMQPushConsumer consumer(String nameServer, String topic, FileOutputStream file, String group)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            ByteBuffer records = ByteBuffer.allocate(24 * messages.size());
            messages.forEach(message -> records.put(message.getBody(), 0, 16).putLong(now));
            try {
                file.write(records.array());
            } catch (IOException unwritable) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    private static void produce(String nameServer, String topic, FileOutputStream file, int rate, int bytes)
        throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("soak-producer");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        AtomicLong numbers = new AtomicLong();
        LongAdder failed = new LongAdder();
        List<Thread> threads = new ArrayList<>();
        for (int thread = 0; thread < THREADS; thread++) {
            long first = System.nanoTime() + thread * NS / rate;
            threads.add(new Thread(() -> {
                long due = first;
                while (!ended) {
                    due = await(due, THREADS * NS / rate);
                    send(producer, topic, bytes, numbers.getAndIncrement(), file, failed);
                }
            }));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(threads, producer)));
        threads.forEach(Thread::start);
        System.out.println("started");
        while (!ended) {
            Thread.sleep(1000);
            System.out.printf("numbers %d failed %d%n", numbers.get(), failed.sum());
        }
    }

    /** Waits until a message is due; returns when the next one is. What a second of silence left undone is left out. */
    private static long await(long due, long interval) {
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        return Math.max(due + interval, System.nanoTime() - NS);
    }

    private static void send(
        DefaultMQProducer producer, String topic, int bytes, long number, FileOutputStream file, LongAdder failed) {
        byte[] body = ByteBuffer.allocate(bytes).putLong(number).putLong(System.nanoTime()).array();
        try {
            if (producer.send(new Message(topic, body)).getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("not SEND_OK");
            }
            file.write(ByteBuffer.allocate(8).putLong(number).array());
        } catch (Exception refused) {
            failed.increment();
            LockSupport.parkNanos(AFTER_A_FAILURE_NS);
        }
    }

    private static void end(List<Thread> threads, DefaultMQProducer producer) {
        ended = true;
        try {
            for (Thread thread : threads) {
                thread.join();
            }
        } catch (InterruptedException hurried) {
            Thread.currentThread().interrupt();
        }
        producer.shutdown();
    }
}
