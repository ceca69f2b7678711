// Each lock library again, contended for by three processes.

import { fork } from "node:child_process";
import { once } from "node:events";
import { using } from "./ioredis.mjs";

const CONTENDERS = 3;
const TIMES = 25;

export const scenarios = [
  ["ioredis"],
  ["redis", "node-redis"],
  ["redlock", "node-redlock"],
  ["redis-semaphore"],
].map(([name, label]) => [name, "processes", (p, address) => contend(p, address, name), label]);

async function contend(p, address, library) {
  const contender = new URL("contender.mjs", import.meta.url);
  const key = p.key("lock");
  const exits = Array.from({ length: CONTENDERS }, async () => {
    const child = fork(contender, [library, address.host, String(address.port), key, String(TIMES)]);
    const [code] = await once(child, "exit");
    return code;
  });
  p.equal(`${CONTENDERS} processes lock ${TIMES} times each`, await Promise.all(exits), Array(CONTENDERS).fill(0));
  await using(address, async (db) => {
    p.equal("and no count is lost", await db.get(`${key}:count`), String(CONTENDERS * TIMES));
  });
}
