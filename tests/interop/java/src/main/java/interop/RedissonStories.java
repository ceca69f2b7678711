package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTopic;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's locks and synchronizers, with the watchdog shortened so that its renewals are seen. */
final class RedissonStories {
    private static final long WATCHDOG_MS = 4_000;

    private final Server server;

    static List<Scenario> all(Server server) {
        RedissonStories stories = new RedissonStories(server);
        return List.of(
                stories.scenario("RLock", stories::lock),
                stories.scenario("watchdog", stories::watchdog),
                stories.scenario("contention of two processes", stories::processes),
                stories.scenario("FairLock", stories::fairLock),
                stories.scenario("ReadWriteLock", stories::readWriteLock),
                stories.scenario("FencedLock", stories::fencedLock),
                stories.scenario("MultiLock and SpinLock", stories::otherLocks),
                stories.scenario("Semaphore", stories::semaphore),
                stories.scenario("PermitExpirableSemaphore", stories::expirableSemaphore),
                stories.scenario("CountDownLatch", stories::latch),
                stories.scenario("queue, topic, map", stories::objects));
    }

    private RedissonStories(Server server) {
        this.server = server;
    }

    private Scenario scenario(String topic, Scenario.Story story) {
        return new Scenario("Redisson", Redisson.class, topic, story);
    }

    private interface Use {
        void with(RedissonClient redisson) throws Exception;
    }

    private static RedissonClient connect(String url) {
        Config config = new Config();
        config.setLockWatchdogTimeout(WATCHDOG_MS);
        config.useSingleServer().setAddress(url);
        return Redisson.create(config);
    }

    private void open(Use use) throws Exception {
        RedissonClient redisson = connect(server.url());
        try {
            use.with(redisson);
        } finally {
            redisson.shutdown(0, 2, TimeUnit.SECONDS);
        }
    }

    /** One contending process: counts carelessly while it holds the lock. */
    static void contend(String url, String key, int times) throws Exception {
        RedissonClient redisson = connect(url);
        for (int n = 0; n < times; n++) {
            RLock lock = redisson.getLock(key);
            lock.lock();
            RAtomicLong count = redisson.getAtomicLong(key + ":count");
            long seen = count.get();
            Thread.sleep(1);
            count.set(seen + 1);
            lock.unlock();
        }
        redisson.shutdown(0, 2, TimeUnit.SECONDS);
    }

    private void lock(Probe p) throws Exception {
        open(redisson -> {
            RLock lock = redisson.getLock(p.key("lock"));
            lock.lock(10, TimeUnit.SECONDS);
            lock.lock(10, TimeUnit.SECONDS);
            p.equal("it is re-entrant", lock.getHoldCount(), 2);
            p.between("the lease is kept", lock.remainTimeToLive(), 9_000, 10_000);
            Probe.together(1, other -> {
                p.holds("another thread's try is refused", !lock.tryLock());
                p.holds("and its wait is bounded", !lock.tryLock(200, TimeUnit.MILLISECONDS));
                p.throwsError("it cannot unlock", IllegalMonitorStateException.class, () -> {
                    lock.unlock();
                    return null;
                });
            });
            lock.unlock();
            p.holds("one unlock of two leaves it held", lock.isLocked());
            CountDownLatch waiting = new CountDownLatch(1);
            Thread waiter = new Thread(() -> {
                waiting.countDown();
                lock.lock();
                lock.unlock();
            });
            waiter.start();
            waiting.await();
            Thread.sleep(100);
            long start = System.nanoTime();
            lock.unlock();
            waiter.join(10_000);
            p.between("a waiter is woken by the release (ms)", (System.nanoTime() - start) / 1_000_000, 0, 2_000);
            p.holds("and leaves it free", !lock.isLocked());
            lock.lock(100, TimeUnit.MILLISECONDS);
            Thread.sleep(150);
            p.holds("a lease that ends frees it", !lock.isLocked());
            lock.lock();
            p.holds("a forced unlock frees it whoever holds it", lock.forceUnlock() && !lock.isLocked());
        });
    }

    private void watchdog(Probe p) throws Exception {
        open(redisson -> {
            RLock lock = redisson.getLock(p.key("lock"));
            lock.lock();
            Thread.sleep(3 * WATCHDOG_MS / 2);
            p.between("without a lease the watchdog renews it", lock.remainTimeToLive(), 500, WATCHDOG_MS);
            lock.unlock();
            RedissonClient dying = connect(server.url());
            dying.getLock(p.key("lock")).lock();
            dying.shutdown(0, 2, TimeUnit.SECONDS);
            p.holds("a client that ends loses it within the watchdog's time", lock.tryLock(2 * WATCHDOG_MS, TimeUnit.MILLISECONDS));
            lock.unlock();
        });
    }

    private void processes(Probe p) throws Exception {
        String java = ProcessHandle.current().info().command().orElse("java");
        List<Process> running = new ArrayList<>();
        for (int n = 0; n < 2; n++) {
            running.add(new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), Main.class.getName(),
                    "contend", server.url(), p.key("lock"), "40").inheritIO().start());
        }
        boolean ended = true;
        for (Process one : running) {
            ended &= one.waitFor(50, TimeUnit.SECONDS) && one.exitValue() == 0;
            one.destroyForcibly();
        }
        p.holds("2 processes lock 40 times each", ended);
        open(redisson -> p.equal("and no count is lost", redisson.getAtomicLong(p.key("lock") + ":count").getAndDelete(), 80));
        Section section = new Section();
        open(redisson -> Probe.together(20, worker -> {
            RLock lock = redisson.getLock(p.key("threads"));
            lock.lock();
            section.pass();
            lock.unlock();
        }));
        p.equal("20 threads pass it with a peak of 1", section.passes + " " + section.peak, "20 1");
    }

    private void fairLock(Probe p) throws Exception {
        open(redisson -> {
            RLock lock = redisson.getFairLock(p.key("lock"));
            lock.lock();
            List<Integer> order = new ArrayList<>();
            List<Thread> waiters = new ArrayList<>();
            for (int n = 0; n < 5; n++) {
                int place = n;
                Thread waiter = new Thread(() -> {
                    lock.lock();
                    order.add(place);
                    lock.unlock();
                });
                waiter.start();
                waiters.add(waiter);
                Thread.sleep(200);
            }
            lock.unlock();
            for (Thread waiter : waiters) {
                waiter.join(20_000);
            }
            p.equal("five waiters get it in the order of their coming", order, List.of(0, 1, 2, 3, 4));
        });
    }

    private void readWriteLock(Probe p) throws Exception {
        open(redisson -> {
            RReadWriteLock lock = redisson.getReadWriteLock(p.key("lock"));
            lock.readLock().lock();
            Probe.together(1, other -> {
                p.holds("a second reader is let in", lock.readLock().tryLock());
                p.holds("a writer is not", !lock.writeLock().tryLock());
                lock.readLock().unlock();
            });
            lock.readLock().unlock();
            lock.writeLock().lock();
            Probe.together(1, other -> {
                p.holds("beside a writer there is no reader", !lock.readLock().tryLock());
                p.holds("nor a second writer", !lock.writeLock().tryLock());
            });
            lock.readLock().lock();
            lock.writeLock().unlock();
            Probe.together(1, other -> p.holds("a writer may go on as a reader", lock.readLock().tryLock()));
            lock.readLock().unlock();
        });
    }

    private void fencedLock(Probe p) throws Exception {
        open(redisson -> {
            RFencedLock lock = redisson.getFencedLock(p.key("lock"));
            List<Long> tokens = new ArrayList<>();
            for (int n = 0; n < 3; n++) {
                tokens.add(lock.lockAndGetToken());
                lock.unlock();
            }
            p.equal("its tokens rise", tokens, List.of(1L, 2L, 3L));
            lock.lockAndGetToken();
            Probe.together(1, other -> p.equal("a refused try has none", lock.tryLockAndGetToken(100, TimeUnit.MILLISECONDS), null));
            lock.unlock();
        });
    }

    private void otherLocks(Probe p) throws Exception {
        open(redisson -> {
            RLock first = redisson.getLock(p.key("first"));
            RLock both = redisson.getMultiLock(first, redisson.getLock(p.key("second")));
            p.holds("a multi-lock takes both", both.tryLock() && redisson.getLock(p.key("second")).isLocked());
            both.unlock();
            Probe.together(1, other -> redisson.getLock(p.key("second")).lock(10, TimeUnit.SECONDS));
            p.holds("or neither", !both.tryLock() && !first.isLocked());
            Section section = new Section();
            Probe.together(10, worker -> {
                RLock spin = redisson.getSpinLock(p.key("spin"));
                spin.lock();
                section.pass();
                spin.unlock();
            });
            p.equal("10 threads pass a spin lock with a peak of 1", section.passes + " " + section.peak, "10 1");
            redisson.getKeys().delete(p.key("second"));
        });
    }

    private void semaphore(Probe p) throws Exception {
        open(redisson -> {
            RSemaphore permits = redisson.getSemaphore(p.key("semaphore"));
            p.holds("its permits are set once", permits.trySetPermits(3) && !permits.trySetPermits(5));
            Section section = new Section();
            Probe.together(15, worker -> {
                permits.acquire();
                section.pass();
                permits.release();
            });
            p.equal("15 threads share it", section.passes, 15);
            p.between("with a peak of 3", section.peak.get(), 2, 3);
            permits.acquire(3);
            p.holds("a fourth is refused", !permits.tryAcquire());
            permits.release(3);
            p.equal("and all come back", permits.availablePermits(), 3);
            permits.delete();
        });
    }

    private void expirableSemaphore(Probe p) throws Exception {
        open(redisson -> {
            RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(p.key("semaphore"));
            permits.trySetPermits(2);
            String lasting = permits.acquire();
            String leased = permits.acquire(300, TimeUnit.MILLISECONDS);
            p.holds("with both permits taken a third is refused", permits.tryAcquire() == null);
            String next = permits.tryAcquire(5, 10, TimeUnit.SECONDS);
            p.holds("a permit whose lease ends goes to a waiter", next != null);
            p.holds("its late holder cannot give it back", !permits.tryRelease(leased));
            p.holds("a lease can be renewed", permits.updateLeaseTime(next, 20, TimeUnit.SECONDS));
            permits.release(lasting);
            permits.release(next);
            p.equal("and both come back", permits.availablePermits(), 2);
            permits.delete();
        });
    }

    private void latch(Probe p) throws Exception {
        open(redisson -> {
            RCountDownLatch latch = redisson.getCountDownLatch(p.key("latch"));
            p.holds("its count is set once", latch.trySetCount(3) && !latch.trySetCount(9));
            p.holds("a wait before the end is bounded", !latch.await(100, TimeUnit.MILLISECONDS));
            AtomicInteger awake = new AtomicInteger();
            Thread counting = new Thread(() -> {
                for (int n = 0; n < 3; n++) {
                    latch.countDown();
                }
            });
            Probe.together(4, worker -> {
                if (worker == 0) {
                    Thread.sleep(200);
                    counting.start();
                } else if (redisson.getCountDownLatch(p.key("latch")).await(20, TimeUnit.SECONDS)) {
                    awake.incrementAndGet();
                }
            });
            p.equal("three waiters wake when it is counted down", awake, 3);
        });
    }

    private void objects(Probe p) throws Exception {
        open(redisson -> {
            RBlockingQueue<String> queue = redisson.getBlockingQueue(p.key("queue"));
            Thread producer = new Thread(() -> queue.add("job"));
            producer.start();
            p.equal("a blocking queue hands on its element", queue.poll(10, TimeUnit.SECONDS), "job");
            CountDownLatch heard = new CountDownLatch(1);
            RTopic topic = redisson.getTopic(p.key("topic"));
            topic.addListener(String.class, (channel, message) -> heard.countDown());
            p.equal("a topic counts its listener", topic.publish("hello"), 1);
            p.holds("who hears the message", heard.await(10, TimeUnit.SECONDS));
            redisson.<String, Integer>getMap(p.key("map")).put("one", 1);
            p.equal("a map keeps its entry", redisson.getMap(p.key("map")).get("one"), 1);
            redisson.getKeys().delete(p.key("map"));
        });
    }
}
