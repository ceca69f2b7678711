// Runs real Node clients, with their default options, against the server at HOST PORT.

import { failures, play, Probe } from "./check.mjs";
import { scenarios as bullmq } from "./bullmq.mjs";
import { scenarios as ioredis } from "./ioredis.mjs";
import { scenarios as nodeRedis } from "./node-redis.mjs";
import { scenarios as processes } from "./processes.mjs";
import { scenarios as semaphore } from "./redis-semaphore.mjs";
import { scenarios as redlock } from "./redlock.mjs";

const groups = [ioredis, nodeRedis, redlock, semaphore, processes, bullmq];

const [host = process.env.KHOA_HOST, port = process.env.KHOA_PORT] = process.argv.slice(2);
if (!host || !port) {
  console.error("usage: main.mjs HOST PORT (or set KHOA_HOST and KHOA_PORT)");
  process.exit(2);
}
console.log(`# Node clients against ${host}:${port}`);
// An error that a library throws from a timer of its own ends the run, as a failed check.
process.on("uncaughtException", (error) => {
  new Probe("ioredis", "process").that("no stray error", false, String(error));
  process.exit(1);
});
for (const scenario of groups.flat()) await play(scenario, { host, port: Number(port) });
if (failures() > 0) console.error(`${failures()} checks of the Node clients failed`);
process.exit(failures() > 0 ? 1 : 0);
