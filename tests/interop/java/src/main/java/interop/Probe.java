package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Makes the claims of one scenario, one line each, and counts those that do not hold. */
final class Probe {
    private final String label;
    private final String prefix = "interop:java:" + ProcessHandle.current().pid() + ":" + System.nanoTime() + ":";
    private int failures;

    Probe(String label) {
        this.label = label;
    }

    /** A name that no other scenario and no other run uses. */
    String key(String name) {
        return prefix + name;
    }

    int failures() {
        return failures;
    }

    synchronized void that(String claim, boolean holds, String detail) {
        if (holds) {
            System.out.println("ok   " + label + " | " + claim);
        } else {
            failures++;
            System.out.println("FAIL " + label + " | " + claim + " | " + detail);
        }
    }

    void holds(String claim, boolean holds) {
        that(claim, holds, "it does not");
    }

    void equal(String claim, Object got, Object want) {
        that(claim, Objects.equals(String.valueOf(got), String.valueOf(want)), "got " + got + ", want " + want);
    }

    void between(String claim, long got, long low, long high) {
        that(claim, low <= got && got <= high, "got " + got + ", want " + low + " to " + high);
    }

    void throwsError(String claim, Class<? extends Throwable> error, Callable<?> call) {
        try {
            Object result = call.call();
            that(claim, false, "no error but " + result);
        } catch (Throwable thrown) {
            that(claim, error.isInstance(thrown), "got " + thrown);
        }
    }

    interface Work {
        void run(int worker) throws Exception;
    }

    /** Runs the work in so many threads at once and throws the first error of any. */
    static void together(int threads, Work work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                int worker = i;
                running.add(pool.submit(() -> {
                    work.run(worker);
                    return null;
                }));
            }
            for (Future<?> one : running) {
                one.get(60, TimeUnit.SECONDS);
            }
        } finally {
            pool.shutdownNow();
        }
    }

    /** Polls for a condition for a bounded time. */
    static boolean eventually(Callable<Boolean> condition) throws Exception {
        for (int i = 0; i < 500; i++) {
            if (condition.call()) {
                return true;
            }
            Thread.sleep(10);
        }
        return false;
    }
}
