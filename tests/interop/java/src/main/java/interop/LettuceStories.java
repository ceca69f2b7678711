package interop;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Lettuce: one multiplexed connection for many threads, scripts, transactions, subscriptions, both protocols. */
final class LettuceStories {
    private static final String RELEASE =
            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

    private final Server server;

    static List<Scenario> all(Server server) {
        LettuceStories stories = new LettuceStories(server);
        return List.of(
                stories.scenario("handshake", stories::handshake),
                stories.scenario("lock", stories::lock),
                stories.scenario("contention", stories::contention),
                stories.scenario("WATCH/MULTI counter", stories::counter),
                stories.scenario("async pipelining and scans", stories::pipelining),
                stories.scenario("queue and pub/sub", stories::messages));
    }

    private LettuceStories(Server server) {
        this.server = server;
    }

    private Scenario scenario(String topic, Scenario.Story story) {
        return new Scenario("Lettuce", RedisClient.class, topic, story);
    }

    private interface Use {
        void with(RedisClient client) throws Exception;
    }

    private void open(Use use) throws Exception {
        RedisClient client = RedisClient.create(server.url());
        try {
            use.with(client);
        } finally {
            client.shutdown(0, 2, TimeUnit.SECONDS);
        }
    }

    private void handshake(Probe p) throws Exception {
        for (ProtocolVersion protocol : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
            open(client -> {
                client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
                try (StatefulRedisConnection<String, String> connection = client.connect()) {
                    p.equal("PING over " + protocol, connection.sync().ping(), "PONG");
                    connection.sync().clientSetname("khoa-interop");
                    p.equal("CLIENT GETNAME over " + protocol, connection.sync().clientGetname(), "khoa-interop");
                }
            });
        }
    }

    private static boolean acquire(RedisCommands<String, String> db, String key, String token, long ttl) {
        return "OK".equals(db.set(key, token, SetArgs.Builder.nx().px(ttl)));
    }

    private static long release(RedisCommands<String, String> db, String key, String token) {
        return db.<Long>eval(RELEASE, ScriptOutputType.INTEGER, new String[] {key}, token);
    }

    private void lock(Probe p) throws Exception {
        open(client -> {
            RedisCommands<String, String> db = client.connect().sync();
            String key = p.key("lock");
            p.holds("A acquires it", acquire(db, key, "a", 10_000));
            p.holds("B is refused", !acquire(db, key, "b", 10_000));
            p.equal("a wrong token releases nothing", release(db, key, "b"), 0);
            p.equal("the right one does", release(db, key, "a"), 1);
            acquire(db, key, "dead", 100);
            p.holds("a dead holder's lock expires", Probe.eventually(() -> acquire(db, key, "heir", 10_000)));
            p.equal("the late release spares the heir", release(db, key, "dead"), 0);
            release(db, key, "heir");
            p.throwsError("an unknown script is NOSCRIPT", RedisNoScriptException.class,
                    () -> db.evalsha("f".repeat(40), ScriptOutputType.INTEGER));
        });
    }

    private void contention(Probe p) throws Exception {
        Section section = new Section();
        open(client -> {
            RedisCommands<String, String> db = client.connect().sync();
            Probe.together(20, worker -> {
                while (!acquire(db, p.key("lock"), "worker " + worker, 10_000)) {
                    Thread.sleep(2);
                }
                section.pass();
                release(db, p.key("lock"), "worker " + worker);
            });
        });
        p.equal("20 threads on one connection acquire it once each", section.passes, 20);
        p.equal("the peak inside is 1", section.peak, 1);
    }

    private void counter(Probe p) throws Exception {
        open(client -> {
            String key = p.key("counter");
            RedisCommands<String, String> db = client.connect().sync();
            db.setex(key, 60, "0");
            Probe.together(5, worker -> {
                try (StatefulRedisConnection<String, String> own = client.connect()) {
                    while (!increment(own.sync(), key)) {
                        Thread.onSpinWait();
                    }
                }
            });
            p.equal("5 connections count to 5", db.getdel(key), 5);
        });
    }

    private static boolean increment(RedisCommands<String, String> db, String key) {
        db.watch(key);
        int next = Integer.parseInt(db.get(key)) + 1;
        db.multi();
        db.setex(key, 60, Integer.toString(next));
        TransactionResult result = db.exec();
        return !result.wasDiscarded();
    }

    private void pipelining(Probe p) throws Exception {
        open(client -> {
            RedisAsyncCommands<String, String> db = client.connect().async();
            List<RedisFuture<String>> sent = new ArrayList<>();
            for (int n = 0; n < 1000; n++) {
                sent.add(db.setex(p.key("many:" + n), 60, "x"));
            }
            int done = 0;
            for (RedisFuture<String> one : sent) {
                done += one.get(20, TimeUnit.SECONDS).equals("OK") ? 1 : 0;
            }
            p.equal("1000 requests in flight are all answered", done, 1000);
            Set<String> seen = new HashSet<>();
            RedisCommands<String, String> sync = client.connect().sync();
            ScanArgs some = ScanArgs.Builder.matches(p.key("many:*")).limit(100);
            ScanIterator.scan(sync, some).forEachRemaining(seen::add);
            p.equal("SCAN finds them", seen.size(), 1000);
            p.equal("UNLINK removes them", sync.unlink(seen.toArray(String[]::new)), 1000);
        });
    }

    private void messages(Probe p) throws Exception {
        open(client -> {
            RedisFuture<KeyValue<String, String>> waiting = client.connect().async().brpop(5, p.key("queue"));
            RedisCommands<String, String> db = client.connect().sync();
            db.lpush(p.key("queue"), "job");
            p.equal("BRPOP waits for its element", waiting.get(10, TimeUnit.SECONDS).getValue(), "job");
            CountDownLatch heard = new CountDownLatch(2);
            StatefulRedisPubSubConnection<String, String> listener = client.connectPubSub();
            listener.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.countDown();
                }

                @Override
                public void message(String pattern, String channel, String message) {
                    heard.countDown();
                }
            });
            listener.sync().subscribe(p.key("news"));
            listener.sync().psubscribe(p.key("n*"));
            p.equal("PUBLISH reaches both subscriptions", db.publish(p.key("news"), "hello"), 2);
            p.holds("and both are delivered", heard.await(10, TimeUnit.SECONDS));
        });
    }
}
