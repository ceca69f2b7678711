// node-redis (package `redis`): its pool, scripts, transactions, client-side cache and subscriptions.

import { randomUUID } from "node:crypto";
import { BasicClientSideCache, createClient, createClientPool, defineScript, WatchError } from "redis";
import { Section, sleep } from "./check.mjs";

const NAME = "redis";
const LABEL = "node-redis";

export const scenarios = [
  [NAME, "lock", lock, LABEL],
  [NAME, "lock: contention", contention, LABEL],
  [NAME, "WATCH/MULTI counter", counter, LABEL],
  [NAME, "queue, pub/sub and scans", typicalUse, LABEL],
  [NAME, "client-side caching", caching, LABEL],
];

const releaseLock = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])",
  parseCommand(parser, key, token) {
    parser.pushKey(key);
    parser.push(token);
  },
  transformReply: (deleted) => deleted,
});

function options({ host, port }) {
  return { url: `redis://${host}:${port}`, scripts: { releaseLock } };
}

// Runs the story with a client of its own, closed whatever happens.
export async function withClient(address, story, more = {}) {
  const client = createClient({ ...options(address), ...more });
  client.on("error", () => {});
  await client.connect();
  try {
    return await story(client);
  } finally {
    client.destroy();
  }
}

async function withPool(address, story) {
  const pool = createClientPool(options(address));
  await pool.connect();
  try {
    return await story(pool);
  } finally {
    pool.destroy();
  }
}

async function acquire(db, key, token, ttl = 10_000) {
  const reply = await db.set(key, token, { condition: "NX", expiration: { type: "PX", value: ttl } });
  return reply === "OK";
}

// Takes the lock, works while holding it, and gives it back.
export async function locked(db, key, work) {
  const token = randomUUID();
  while (!(await acquire(db, key, token))) await sleep(2);
  await work();
  if ((await db.releaseLock(key, token)) !== 1) throw new Error("the lock was lost");
}

async function lock(p, address) {
  await withClient(address, async (db) => {
    const key = p.key("lock");
    p.equal("A acquires it", await acquire(db, key, "a"), true);
    p.equal("B is refused", await acquire(db, key, "b"), false);
    await db.scriptFlush();
    p.equal("a wrong token releases nothing, after SCRIPT FLUSH too", await db.releaseLock(key, "b"), 0);
    p.equal("the right one does", await db.releaseLock(key, "a"), 1);
    await acquire(db, key, "dead", 100);
    const start = Date.now();
    await locked(db, key, async () => p.between("a dead holder's lock is free at its deadline", Date.now() - start, 50, 2_000));
  });
}

async function contention(p, address) {
  const section = new Section();
  await withPool(address, async (pool) => {
    await Promise.all(Array.from({ length: 50 }, () => locked(pool, p.key("lock"), () => section.pass())));
  });
  p.equal("50 tasks of a pool acquire it once each", section.passes, 50);
  p.equal("the peak inside is 1", section.peak, 1);
}

async function counter(p, address) {
  await withPool(address, async (pool) => {
    const key = p.key("counter");
    await pool.set(key, "0", { expiration: { type: "EX", value: 60 } });
    const increment = () =>
      pool.execute(async (client) => {
        for (;;) {
          await client.watch(key);
          const next = Number(await client.get(key)) + 1;
          try {
            return await client.multi().set(key, String(next), { expiration: { type: "EX", value: 60 } }).exec();
          } catch (error) {
            if (!(error instanceof WatchError)) throw error;
          }
        }
      });
    await Promise.all(Array.from({ length: 5 }, increment));
    p.equal("5 tasks count to 5", await pool.getDel(key), "5");
  });
}

async function typicalUse(p, address) {
  await withClient(address, async (db) => {
    const waiting = withClient(address, (own) => own.brPop(p.key("queue"), 5));
    await sleep(50);
    await db.lPush(p.key("queue"), "job");
    p.equal("BRPOP waits for its element", { ...(await waiting) }, { key: p.key("queue"), element: "job" });
    await withClient(address, async (listener) => {
      const heard = [];
      await listener.subscribe(p.key("news"), (text) => heard.push(text));
      await listener.pSubscribe(p.key("n*"), (text) => heard.push(text));
      p.equal("PUBLISH reaches both subscriptions", await db.publish(p.key("news"), "hello"), 2);
      for (let n = 0; n < 200 && heard.length < 2; n += 1) await sleep(10);
      p.equal("and both are delivered", heard, ["hello", "hello"]);
    });
    const pipeline = db.multi();
    for (let n = 0; n < 500; n += 1) pipeline.setEx(p.key(`many:${n}`), 60, String(n));
    p.equal("a pipeline of 500 has 500 replies", (await pipeline.execAsPipeline()).length, 500);
    const seen = new Set();
    for await (const keys of db.scanIterator({ MATCH: p.key("many:*"), COUNT: 50 })) keys.forEach((key) => seen.add(key));
    p.equal("a scan iterator finds them", seen.size, 500);
    p.equal("UNLINK removes them", await db.unlink([...seen]), 500);
  });
}

async function caching(p, address) {
  const cache = new BasicClientSideCache();
  const reader = async (db) => {
    const key = p.key("cached");
    await withClient(address, async (other) => {
      await other.setEx(key, 60, "one");
      await db.get(key);
      p.equal("a second read is answered from the cache", [await db.get(key), cache.stats().hitCount], ["one", 1]);
      await other.setEx(key, 60, "two");
      for (let n = 0; n < 200 && (await db.get(key)) !== "two"; n += 1) await sleep(5);
      p.equal("another's write invalidates it", await db.get(key), "two");
      await other.del(key);
    });
  };
  await withClient(address, reader, { RESP: 3, clientSideCache: cache });
}
