// One contending process: takes the lock of its arguments by one library and counts carelessly while it holds it.

import { randomUUID } from "node:crypto";
import Redlock from "redlock";
import { sleep } from "./check.mjs";
import { acquireWaiting, using } from "./ioredis.mjs";
import { locked as lockedByNodeRedis, withClient } from "./node-redis.mjs";
import { locked as lockedBySemaphore } from "./redis-semaphore.mjs";

const [library, host, port, key, times] = process.argv.slice(2);
const address = { host, port: Number(port) };
const count = `${key}:count`;

// Reads, waits and writes back: two at once lose a count, which is what a lock must prevent.
async function increment(db) {
  const next = Number(await db.get(count)) + 1;
  await sleep(1);
  await db.set(count, String(next));
  await db.expire(count, 60);
}

const libraries = {
  ioredis: (db) => async () => {
    const token = randomUUID();
    await acquireWaiting(db, key, token);
    await increment(db);
    if ((await db.releaseLock(key, token)) !== 1) throw new Error("the lock was lost");
  },
  redlock: (db) => {
    const redlock = new Redlock([db], { retryCount: 5_000, retryDelay: 4, retryJitter: 4 });
    return () => redlock.using([key], 5_000, () => increment(db));
  },
  "redis-semaphore": (db) => () => lockedBySemaphore(db, key, () => increment(db)),
  redis: (db) => () => lockedByNodeRedis(db, key, () => increment(db)),
};

const open = library === "redis" ? withClient : using;
await open(address, async (db) => {
  const once = libraries[library](db);
  for (let n = 0; n < Number(times); n += 1) await once();
});
