package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.HashSet;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/** Jedis: the lock by SET NX PX and a script, WATCH, pipelines, blocking pops and subscriptions on its pool. */
final class JedisStories {
    private static final String RELEASE =
            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

    private final Server server;

    static List<Scenario> all(Server server) {
        JedisStories stories = new JedisStories(server);
        return List.of(
                stories.scenario("lock", stories::lock),
                stories.scenario("contention", stories::contention),
                stories.scenario("WATCH/MULTI counter", stories::counter),
                stories.scenario("pipelines and scans", stories::pipelines),
                stories.scenario("queue and pub/sub", stories::messages));
    }

    private JedisStories(Server server) {
        this.server = server;
    }

    private Scenario scenario(String topic, Scenario.Story story) {
        return new Scenario("Jedis", RedisClient.class, topic, story);
    }

    private RedisClient open() {
        return RedisClient.create(server.host(), server.port());
    }

    private static boolean acquire(RedisClient db, String key, String token, long ttl) {
        return "OK".equals(db.set(key, token, SetParams.setParams().nx().px(ttl)));
    }

    private static long release(RedisClient db, String key, String token) {
        return (Long) db.eval(RELEASE, List.of(key), List.of(token));
    }

    private void lock(Probe p) throws Exception {
        try (RedisClient db = open()) {
            String key = p.key("lock");
            p.holds("A acquires it", acquire(db, key, "a", 10_000));
            p.holds("B is refused", !acquire(db, key, "b", 10_000));
            p.equal("a wrong token releases nothing", release(db, key, "b"), 0);
            p.equal("the right one does", release(db, key, "a"), 1);
            acquire(db, key, "dead", 100);
            p.holds("a dead holder's lock expires", Probe.eventually(() -> acquire(db, key, "heir", 10_000)));
            p.between("PTTL tells what is left", db.pttl(key), 9_000, 10_000);
            p.equal("the late release spares the heir", release(db, key, "dead"), 0);
            String sha = db.scriptLoad(RELEASE);
            p.equal("EVALSHA releases it", db.evalsha(sha, List.of(key), List.of("heir")), 1);
            p.throwsError("an unknown script is NOSCRIPT", JedisDataException.class, () -> db.evalsha("f".repeat(40)));
        }
    }

    private void contention(Probe p) throws Exception {
        Section section = new Section();
        try (RedisClient db = open()) {
            Probe.together(20, worker -> {
                String token = UUID.randomUUID().toString();
                while (!acquire(db, p.key("lock"), token, 10_000)) {
                    Thread.sleep(2);
                }
                section.pass();
                release(db, p.key("lock"), token);
            });
        }
        p.equal("20 threads acquire it once each", section.passes, 20);
        p.equal("the peak inside is 1", section.peak, 1);
    }

    private void counter(Probe p) throws Exception {
        try (RedisClient db = open()) {
            String key = p.key("counter");
            db.setex(key, 60, "0");
            Probe.together(5, worker -> {
                while (!increment(db, key)) {
                    Thread.onSpinWait();
                }
            });
            p.equal("5 threads count to 5", db.getDel(key), 5);
        }
    }

    private static boolean increment(RedisClient db, String key) {
        try (AbstractTransaction transaction = db.transaction(false)) {
            transaction.watch(key);
            int next = Integer.parseInt(db.get(key)) + 1;
            transaction.multi();
            transaction.setex(key, 60, Integer.toString(next));
            return transaction.exec() != null;
        }
    }

    private void pipelines(Probe p) {
        try (RedisClient db = open()) {
            try (Pipeline pipeline = db.pipelined()) {
                for (int n = 0; n < 1000; n++) {
                    pipeline.setex(p.key("many:" + n), 60, "x");
                }
                p.equal("a pipeline of 1000 has 1000 replies", pipeline.syncAndReturnAll().size(), 1000);
            }
            Set<String> seen = new HashSet<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> page = db.scan(cursor, new ScanParams().match(p.key("many:*")).count(100));
                seen.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            p.equal("SCAN finds them", seen.size(), 1000);
            p.equal("UNLINK removes them", db.unlink(seen.toArray(String[]::new)), 1000);
        }
    }

    private void messages(Probe p) throws Exception {
        try (RedisClient db = open()) {
            List<String> taken = new ArrayList<>();
            Thread worker = new Thread(() -> taken.addAll(db.brpop(5, p.key("queue"))));
            worker.start();
            Thread.sleep(50);
            db.lpush(p.key("queue"), "job");
            worker.join(10_000);
            p.equal("BRPOP waits for its element", taken, List.of(p.key("queue"), "job"));
            CountDownLatch heard = new CountDownLatch(1);
            JedisPubSub listener = new JedisPubSub() {
                @Override
                public void onMessage(String channel, String message) {
                    heard.countDown();
                    unsubscribe();
                }
            };
            Thread subscriber = new Thread(() -> db.subscribe(listener, p.key("news")));
            subscriber.start();
            p.holds("PUBLISH reaches the subscriber", Probe.eventually(() -> db.publish(p.key("news"), "hello") == 1));
            p.holds("who hears it", heard.await(10, TimeUnit.SECONDS));
            subscriber.join(10_000);
            p.holds("and ends by UNSUBSCRIBE", !subscriber.isAlive());
        }
    }
}
