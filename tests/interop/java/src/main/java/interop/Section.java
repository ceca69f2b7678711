package interop;

import java.util.concurrent.atomic.AtomicInteger;

/** Counts how many are inside at once and how many came through. */
final class Section {
    final AtomicInteger inside = new AtomicInteger();
    final AtomicInteger peak = new AtomicInteger();
    final AtomicInteger passes = new AtomicInteger();

    /** Stays inside for long enough that a broken lock would let another in. */
    void pass() throws InterruptedException {
        int now = inside.incrementAndGet();
        peak.accumulateAndGet(now, Math::max);
        Thread.sleep(2);
        passes.incrementAndGet();
        inside.decrementAndGet();
    }
}
