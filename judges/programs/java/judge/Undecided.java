package judge;

import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Decides a transaction as the request said, and counts the broker's questions about those left undecided. */
final class Undecided implements TransactionListener {
    private final AtomicInteger checks = new AtomicInteger();
    private volatile LocalTransactionState whenAsked = LocalTransactionState.COMMIT_MESSAGE;

    static LocalTransactionState state(String outcome) {
        return switch (outcome.toLowerCase(Locale.ROOT)) {
            case "", "commit" -> LocalTransactionState.COMMIT_MESSAGE;
            case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
    }

    void decide(String outcome) {
        whenAsked = state(outcome);
    }

    int checks() {
        return checks.get();
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object state) {
        return (LocalTransactionState) state;
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        checks.incrementAndGet();
        return whenAsked;
    }
}
