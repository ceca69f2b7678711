// node-redlock 5: acquire, extend, release, `using` with automatic extension, contention and a quorum of three.

import { Redis } from "ioredis";
import Redlock, { ExecutionError, ResourceLockedError } from "redlock";
import { Section, sleep } from "./check.mjs";
import { using } from "./ioredis.mjs";

const NAME = "redlock";
const LABEL = "node-redlock";

export const scenarios = [
  [NAME, "acquire and release", acquireRelease, LABEL],
  [NAME, "extension", extension, LABEL],
  [NAME, "automatic extension", automaticExtension, LABEL],
  [NAME, "contention", contention, LABEL],
  [NAME, "quorum of three", quorum, LABEL],
];

const ONCE = { retryCount: 0 };

// The first error that is not "held by another" is told, since the scenario did not ask for it.
function locker(p, clients, settings) {
  const redlock = new Redlock(clients, settings);
  let told = false;
  redlock.on("error", (error) => {
    if (told || error instanceof ResourceLockedError) return;
    told = true;
    p.that("no unexpected error", false, String(error));
  });
  return redlock;
}

async function acquireRelease(p, address) {
  await using(address, async (db) => {
    const redlock = locker(p, [db], ONCE);
    const names = [p.key("a"), p.key("b")];
    const lock = await redlock.acquire(names, 5_000);
    p.equal("one lock covers two resources", await db.mget(names), [lock.value, lock.value]);
    const refused = await redlock.acquire([names[1]], 5_000).catch((error) => error);
    p.that("another is refused one of them", refused instanceof ExecutionError, String(refused));
    await lock.release();
    p.equal("release frees both", await db.exists(names), 0);
    const again = await lock.release().catch((error) => error);
    p.that("a second release is an error", again instanceof ExecutionError, String(again));
  });
}

async function extension(p, address) {
  await using(address, async (db) => {
    const redlock = locker(p, [db], ONCE);
    let lock = await redlock.acquire([p.key("lock")], 1_000);
    lock = await lock.extend(20_000);
    p.between("extend sets the new life", await db.pttl(p.key("lock")), 19_000, 20_000);
    lock = await lock.extend(50);
    await sleep(80);
    const late = await lock.extend(1_000).catch((error) => error);
    p.that("an expired lock cannot be extended", late instanceof Error, String(late));
    const patient = locker(p, [db], { retryCount: 100, retryDelay: 10, retryJitter: 5 });
    await redlock.acquire([p.key("lock")], 150);
    const heir = await patient.acquire([p.key("lock")], 5_000);
    p.equal("a waiter acquires it when it expires", await db.get(p.key("lock")), heir.value);
    await heir.release();
  });
}

async function automaticExtension(p, address) {
  await using(address, async (db) => {
    const redlock = locker(p, [db], { automaticExtensionThreshold: 500 });
    const owners = new Set();
    await redlock.using([p.key("lock")], 1_000, async (signal) => {
      for (let n = 0; n < 15; n += 1) {
        await sleep(100);
        owners.add(await db.get(p.key("lock")));
      }
      p.equal("the signal stays quiet", signal.aborted, false);
    });
    p.equal("work longer than the lease keeps one holder", [owners.size, owners.has(null)], [1, false]);
    p.equal("and then frees the key", await db.exists(p.key("lock")), 0);
  });
}

async function contention(p, address) {
  await using(address, async (db) => {
    const redlock = locker(p, [db], { retryCount: 2_000, retryDelay: 5, retryJitter: 5 });
    const section = new Section();
    const worker = () => redlock.using([p.key("lock")], 5_000, () => section.pass());
    await Promise.all(Array.from({ length: 20 }, worker));
    p.equal("20 tasks acquire it once each", section.passes, 20);
    p.equal("the peak inside is 1", section.peak, 1);
  });
}

// Three databases of the one server stand for three nodes.
async function quorum(p, address) {
  const nodes = [0, 1, 2].map((db) => new Redis({ ...address, db }));
  try {
    const redlock = locker(p, nodes, ONCE);
    await nodes[0].set(p.key("lock"), "a stranger", "PX", 5_000);
    const lock = await redlock.acquire([p.key("lock")], 5_000);
    p.equal("two of three nodes are enough", await nodes[2].get(p.key("lock")), lock.value);
    await nodes[1].del(p.key("lock"));
    await nodes[2].del(p.key("lock"));
    await nodes[1].set(p.key("lock"), "a stranger", "PX", 5_000);
    const refused = await redlock.acquire([p.key("lock")], 5_000).catch((error) => error);
    p.that("one of three is not", refused instanceof ExecutionError, String(refused));
  } finally {
    for (const node of nodes) await node.del(p.key("lock"));
    nodes.forEach((node) => node.disconnect());
  }
}
