// One contending process: takes the lock of its arguments and counts carelessly while it holds it.

import { randomUUID } from "node:crypto";
import { sleep } from "./check.mjs";
import { acquireWaiting, using } from "./ioredis.mjs";

const [host, port, key, times] = process.argv.slice(2);
await using({ host, port: Number(port) }, async (db) => {
  for (let n = 0; n < Number(times); n += 1) {
    const token = randomUUID();
    await acquireWaiting(db, key, token);
    const count = Number(await db.get(`${key}:count`));
    await sleep(1);
    await db.set(`${key}:count`, count + 1, "EX", 60);
    if ((await db.releaseLock(key, token)) !== 1) throw new Error("the lock was lost");
  }
});
