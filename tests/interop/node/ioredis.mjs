// ioredis: its handshake, the two articles through it, and its scripts, streams and pipelines.

import { once } from "node:events";
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { Section, sleep } from "./check.mjs";

const NAME = "ioredis";

export const scenarios = [
  [NAME, "handshake", handshake],
  [NAME, "lock", lock],
  [NAME, "lock: contention", contention],
  [NAME, "techniques", techniques],
  [NAME, "pub/sub", publishSubscribe],
  [NAME, "typical use", typicalUse],
];

export function connect({ host, port }, options = {}) {
  const db = new Redis({ host, port, ...options });
  // ioredis knows the script by SHA1 after the first call and falls back to EVAL on NOSCRIPT.
  db.defineCommand("releaseLock", {
    numberOfKeys: 1,
    lua: "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])",
  });
  return db;
}

// Runs the story with a connection that is closed whatever happens.
export async function using(address, story) {
  const db = connect(address);
  try {
    return await story(db);
  } finally {
    db.disconnect();
  }
}

export async function acquire(db, key, token, ttl = 10_000) {
  return (await db.set(key, token, "PX", ttl, "NX")) === "OK";
}

export async function acquireWaiting(db, key, token) {
  while (!(await acquire(db, key, token))) await sleep(2);
}

async function handshake(p, address) {
  const named = connect(address, { connectionName: "khoa-interop", db: 2 });
  p.equal("the ready check passes and PING answers", await named.ping(), "PONG");
  p.equal("the connection's name is kept", await named.client("GETNAME"), "khoa-interop");
  await named.set(p.key("two"), "2", "EX", 60);
  await using(address, async (db) => p.equal("database 2 is not database 0", await db.get(p.key("two")), null));
  await named.del(p.key("two"));
  const ended = once(named, "end");
  p.equal("QUIT is answered", await named.quit(), "OK");
  await ended;
  p.equal("and ends the connection", named.status, "end");
}

async function lock(p, address) {
  await using(address, async (db) => {
    const key = p.key("lock");
    p.equal("A acquires it", await acquire(db, key, "a"), true);
    p.equal("B is refused while A holds it", await acquire(db, key, "b"), false);
    await db.script("FLUSH");
    p.equal("a wrong token releases nothing", await db.releaseLock(key, "b"), 0);
    p.equal("the right one does", await db.releaseLock(key, "a"), 1);
    p.equal("then B acquires it", await acquire(db, key, "b", 100), true);
    const start = Date.now();
    await acquireWaiting(db, key, "c");
    p.between("a dead holder's lock is free at its deadline", Date.now() - start, 50, 2_000);
    p.equal("the late release spares the next holder", await db.releaseLock(key, "b"), 0);
    await db.del(key);
  });
}

async function contention(p, address) {
  const section = new Section();
  await using(address, async (db) => {
    const worker = async () => {
      const token = randomUUID();
      await acquireWaiting(db, p.key("lock"), token);
      await section.pass();
      return db.releaseLock(p.key("lock"), token);
    };
    const released = await Promise.all(Array.from({ length: 50 }, worker));
    p.equal("50 tasks acquire it once each", [section.passes, released.every((n) => n === 1)], [50, true]);
    p.equal("the peak inside is 1", section.peak, 1);
  });
}

async function techniques(p, address) {
  await using(address, async (db) => {
    const taken = [];
    const workers = Array.from({ length: 4 }, () =>
      using(address, async (own) => {
        for (;;) {
          const item = await own.brpop(p.key("tasks"), 1);
          if (item === null) return;
          taken.push(Number(item[1]));
        }
      }),
    );
    for (let n = 0; n < 100; n += 1) await db.lpush(p.key("tasks"), n);
    await Promise.all(workers);
    taken.sort((a, b) => a - b);
    p.equal("4 workers take each of 100 tasks exactly once", taken, Array.from({ length: 100 }, (_, n) => n));
    await db.set(p.key("counter"), 0, "EX", 60);
    await Promise.all(Array.from({ length: 5 }, () => using(address, (own) => increment(own, p.key("counter")))));
    p.equal("5 connections count to 5 with WATCH and MULTI", await db.get(p.key("counter")), "5");
    const hits = [];
    for (let n = 0; n < 7; n += 1) {
      const replies = await db.pipeline().incr(p.key("rate")).expire(p.key("rate"), 60, "NX").exec();
      hits.push(replies[0][1] <= 5);
    }
    p.equal("INCR and EXPIRE let 5 of 7 requests pass", hits, [true, true, true, true, true, false, false]);
    await db.del(p.key("rate"));
  });
}

async function increment(db, key) {
  for (;;) {
    await db.watch(key);
    const next = Number(await db.get(key)) + 1;
    if ((await db.multi().set(key, next, "EX", 60).exec()) !== null) return;
  }
}

async function publishSubscribe(p, address) {
  const [listener, db] = [connect(address), connect(address)];
  const heard = [];
  listener.on("message", (channel, text) => heard.push(text));
  listener.on("pmessage", (pattern, channel, text) => heard.push(`pattern ${text}`));
  p.equal("SUBSCRIBE counts one channel", await listener.subscribe(p.key("news")), 1);
  p.equal("PSUBSCRIBE counts two", await listener.psubscribe(p.key("n*")), 2);
  p.equal("PUBLISH reaches both subscriptions", await db.publish(p.key("news"), "hello"), 2);
  for (let n = 0; n < 200 && heard.length < 2; n += 1) await sleep(10);
  p.equal("and both are delivered", heard.sort(), ["hello", "pattern hello"]);
  p.equal("a subscriber may still PING", await listener.ping("still"), "still");
  await listener.quit();
  await db.quit();
}

async function typicalUse(p, address) {
  await using(address, async (db) => {
    const pipeline = db.pipeline();
    for (let n = 0; n < 1000; n += 1) pipeline.set(p.key(`many:${n}`), n, "EX", 60);
    p.equal("a pipeline of 1000 has 1000 replies", (await pipeline.exec()).length, 1000);
    const seen = new Set();
    for await (const keys of db.scanStream({ match: p.key("many:*"), count: 100 })) keys.forEach((key) => seen.add(key));
    p.equal("a scan stream finds them", seen.size, 1000);
    p.equal("UNLINK removes them", await db.unlink(...seen), 1000);
    const bytes = Buffer.from([0, 255, 13, 10]);
    await db.set(p.key("bin"), bytes, "EX", 60);
    p.equal("buffers come back whole", (await db.getBuffer(p.key("bin"))).equals(bytes), true);
    const aborted = db.multi().set(p.key("x"), 1).call("NOSUCHCOMMAND").exec();
    await p.rejects("an error while queueing aborts EXEC", aborted, /EXECABORT/);
    await p.rejects("INCR of text is an error", db.incr(p.key("bin")), /not an integer/);
  });
}
