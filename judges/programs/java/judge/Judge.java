package judge;

import java.util.HashMap;
import java.util.Map;

/** The stock Java client as a judge: compiled unchanged against every version. */
public final class Judge {
    private Judge() {
    }

    public static void main(String[] arguments) throws Exception {
        Haste.watch(Thread.currentThread());
        Conversation conversation = Conversation.open();
        Senders senders = new Senders();
        Receivers receivers = new Receivers();
        Producers producers = new Producers();
        Timers timers = new Timers();
        Map<String, Conversation.Verb> verbs = new HashMap<>(Map.of(
            "send", senders::send,
            "checks", senders::checks,
            "subscribe", receivers::subscribe,
            "collect", receivers::collect,
            "count", receivers::count,
            "close", receivers::close,
            "produce", producers::produce,
            "progress", producers::progress,
            "halt", producers::halt,
            "reset", request -> {
                receivers.reset();
                senders.reset();
                producers.reset();
                timers.reset();
                return Map.of();
            }));
        verbs.put("timed", timers::timed);
        verbs.put("recall", timers::recall);
        conversation.serve(verbs);
        System.exit(0);
    }
}
