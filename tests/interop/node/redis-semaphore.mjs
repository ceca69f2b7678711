// redis-semaphore: mutex, semaphore and multi-semaphore with automatic refresh, and the mutex of three nodes.

import { Redis } from "ioredis";
import { LostLockError, MultiSemaphore, Mutex, RedlockMutex, Semaphore, TimeoutError } from "redis-semaphore";
import { Section, sleep } from "./check.mjs";
import { using } from "./ioredis.mjs";

const NAME = "redis-semaphore";
const ONCE = { acquireAttemptsLimit: 1 };

export const scenarios = [
  [NAME, "Mutex", mutex],
  [NAME, "refresh and loss", refresh],
  [NAME, "Semaphore and MultiSemaphore", semaphores],
  [NAME, "contention", contention],
  [NAME, "RedlockMutex", quorum],
];

async function mutex(p, address) {
  await using(address, async (db) => {
    const a = new Mutex(db, p.key("lock"));
    const b = new Mutex(db, p.key("lock"), ONCE);
    await a.acquire();
    p.equal("the key holds the holder's identifier", await db.get(`mutex:${p.key("lock")}`), a.identifier);
    const late = await b.acquire().catch((error) => error);
    p.that("another is refused", late instanceof TimeoutError, String(late));
    p.equal("and a try answers false", await b.tryAcquire(), false);
    await b.release();
    p.equal("the other's release leaves it", a.isAcquired && (await db.exists(`mutex:${p.key("lock")}`)), 1);
    await a.release();
    p.equal("its holder's release frees it", await b.tryAcquire(), true);
    await b.release();
  });
}

async function refresh(p, address) {
  await using(address, async (db) => {
    let lost;
    const held = new Mutex(db, p.key("lock"), {
      lockTimeout: 1_000,
      refreshInterval: 250,
      onLockLost: (error) => (lost = error),
    });
    await held.acquire();
    await sleep(1_600);
    p.equal("the refresh carries it past its timeout", await db.get(`mutex:${p.key("lock")}`), held.identifier);
    await db.set(`mutex:${p.key("lock")}`, "a thief", "PX", 5_000);
    for (let n = 0; n < 200 && !lost; n += 1) await sleep(10);
    p.that("a stolen lock is told to its holder", lost instanceof LostLockError && !held.isAcquired, String(lost));
    await held.release();
    p.equal("and the thief's key stays", await db.get(`mutex:${p.key("lock")}`), "a thief");
    await db.del(`mutex:${p.key("lock")}`);
  });
}

async function semaphores(p, address) {
  await using(address, async (db) => {
    const section = new Section();
    const permit = async () => {
      const semaphore = new Semaphore(db, p.key("three"), 3, { acquireTimeout: 30_000 });
      await semaphore.acquire();
      await section.pass();
      await semaphore.release();
    };
    await Promise.all(Array.from({ length: 30 }, permit));
    p.equal("30 tasks share a semaphore of 3, which is filled and never passed", [section.passes, section.peak], [30, 3]);
    const big = new MultiSemaphore(db, p.key("multi"), 5, 3);
    await big.acquire();
    p.equal("3 of 5 permits leave no room for 3 more", await new MultiSemaphore(db, p.key("multi"), 5, 3, ONCE).tryAcquire(), false);
    const small = new MultiSemaphore(db, p.key("multi"), 5, 2);
    p.equal("but for 2", await small.tryAcquire(), true);
    await Promise.all([big.release(), small.release()]);
  });
}

// Takes the mutex, works while holding it, and gives it back.
export async function locked(db, key, work) {
  const held = new Mutex(db, key, { acquireTimeout: 30_000, retryInterval: 2 });
  await held.acquire();
  await work();
  await held.release();
}

async function contention(p, address) {
  const section = new Section();
  await using(address, async (db) => {
    await Promise.all(Array.from({ length: 30 }, () => locked(db, p.key("lock"), () => section.pass())));
  });
  p.equal("30 tasks acquire it once each with a peak of 1", [section.passes, section.peak], [30, 1]);
}

// Three databases of the one server stand for three nodes.
async function quorum(p, address) {
  const nodes = [0, 1, 2].map((db) => new Redis({ ...address, db }));
  try {
    const key = p.key("lock");
    await nodes[0].set(`mutex:${key}`, "a stranger", "PX", 5_000);
    const held = new RedlockMutex(nodes, key);
    p.equal("two of three nodes are enough", await held.tryAcquire(), true);
    p.equal("another is refused", await new RedlockMutex(nodes, key, ONCE).tryAcquire(), false);
    await held.release();
    p.equal("the release frees the two and leaves the stranger's", await Promise.all(nodes.map((n) => n.exists(`mutex:${key}`))), [1, 0, 0]);
    await nodes[0].del(`mutex:${key}`);
  } finally {
    nodes.forEach((node) => node.disconnect());
  }
}
