package judge;

/**
 * Spares the wait for the client's own housekeeping thread at shutdown. That thread looks up from its queue every three
 * seconds, and a shutdown joins it without waking it: most commands of mqadmin would take three seconds for nothing. Here
 * it is woken, as soon as someone is seen to wait for it.
 */
final class Haste extends Thread {
    private static final long LOOK_EVERY_MS = 20;
    private static final String SLEEPER = "NettyEventExecutor";

    private final Thread watched;

    private Haste(Thread watched) {
        super("haste");
        this.watched = watched;
        setDaemon(true);
    }

    static void watch(Thread thread) {
        new Haste(thread).start();
    }

    @Override
    public void run() {
        try {
            while (true) {
                Thread.sleep(LOOK_EVERY_MS);
                if (watched.getState() == State.TIMED_WAITING && joinsSleeper()) {
                    wakeSleepers();
                }
            }
        } catch (InterruptedException ended) {
            interrupt();
        }
    }

    private boolean joinsSleeper() {
        for (StackTraceElement frame : watched.getStackTrace()) {
            if (frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }

    private static void wakeSleepers() {
        Thread[] threads = new Thread[Thread.activeCount() * 2];
        int count = Thread.enumerate(threads);
        for (int at = 0; at < count; at++) {
            if (threads[at].getName().startsWith(SLEEPER)) {
                threads[at].interrupt();
            }
        }
    }
}
