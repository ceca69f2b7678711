// BullMQ: a queue with two workers, delays, priorities, retries, flows, events and a repeating job.

import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { sleep } from "./check.mjs";

const NAME = "bullmq";

export const scenarios = [
  [NAME, "queue with two workers", work, "BullMQ"],
  [NAME, "delay, priority, retry", kinds, "BullMQ"],
  [NAME, "flows and repeating jobs", flows, "BullMQ"],
];

// Opens a queue with its events, and closes and deletes all that the story opened.
async function withQueue(p, address, name, story) {
  const connection = { ...address };
  const queueName = p.key(name).replaceAll(":", "-");
  const queue = new Queue(queueName, { connection });
  const events = new QueueEvents(queueName, { connection });
  await events.waitUntilReady();
  const opened = [events];
  const serve = (run, options = {}) => {
    const worker = new Worker(queueName, run, { connection, ...options });
    worker.on("error", (error) => p.that("no error in a worker", false, String(error)));
    opened.push(worker);
    return worker;
  };
  try {
    await story({ queue, events, serve, connection, opened });
  } finally {
    for (const thing of opened) await thing.close();
    await queue.obliterate({ force: true });
    await queue.close();
  }
}

async function work(p, address) {
  await withQueue(p, address, "work", async ({ queue, events, serve }) => {
    const runs = new Map();
    const run = async (job) => {
      runs.set(job.data.n, (runs.get(job.data.n) ?? 0) + 1);
      return job.data.n ** 2;
    };
    serve(run, { concurrency: 5 });
    serve(run, { concurrency: 5 });
    const jobs = await queue.addBulk(Array.from({ length: 100 }, (_, n) => ({ name: "square", data: { n } })));
    const results = [];
    for (const job of jobs) results.push(await job.waitUntilFinished(events, 30_000));
    p.equal("each of 100 jobs gives its result", results, Array.from({ length: 100 }, (_, n) => n * n));
    p.equal("and ran exactly once", [runs.size, Math.max(...runs.values())], [100, 1]);
    p.equal("the counts agree", await queue.getJobCounts("completed", "waiting", "active", "failed"), {
      completed: 100,
      waiting: 0,
      active: 0,
      failed: 0,
    });
  });
}

async function kinds(p, address) {
  await withQueue(p, address, "kinds", async ({ queue, events, serve }) => {
    await queue.pause();
    for (const priority of [3, 1, 2]) await queue.add("ranked", { priority }, { priority });
    const order = [];
    let tries = 0;
    serve(async (job) => {
      if (job.name === "ranked") order.push(job.data.priority);
      if (job.name === "flaky" && (tries += 1) < 3) throw new Error("not yet");
      return tries;
    });
    await queue.resume();
    const flaky = await queue.add("flaky", {}, { attempts: 5, backoff: { type: "exponential", delay: 20 } });
    p.equal("a failing job is retried until its third try", await flaky.waitUntilFinished(events, 20_000), 3);
    p.equal("jobs run by priority", order, [1, 2, 3]);
    const start = Date.now();
    const late = await queue.add("late", {}, { delay: 500 });
    await late.waitUntilFinished(events, 20_000);
    p.between("a delay is kept", Date.now() - start, 450, 5_000);
    const twice = [await queue.add("same", {}, { jobId: "one" }), await queue.add("same", {}, { jobId: "one" })];
    p.equal("a job id is added once", twice.map((job) => job.id), ["one", "one"]);
  });
}

async function flows(p, address) {
  await withQueue(p, address, "flows", async ({ queue, events, serve, connection, opened }) => {
    let ticks = 0;
    serve(async (job) => {
      if (job.name === "tick") ticks += 1;
      if (job.name === "child") return job.data.n;
      return Object.values(await job.getChildrenValues()).reduce((sum, n) => sum + n, 0);
    });
    const flow = new FlowProducer({ connection });
    opened.push(flow);
    const children = [1, 2, 3].map((n) => ({ name: "child", queueName: queue.name, data: { n } }));
    const tree = await flow.add({ name: "parent", queueName: queue.name, data: {}, children });
    p.equal("a parent runs after its children with their values", await tree.job.waitUntilFinished(events, 20_000), 6);
    await queue.upsertJobScheduler("ticker", { every: 200 }, { name: "tick" });
    for (let n = 0; n < 500 && ticks < 3; n += 1) await sleep(10);
    await queue.removeJobScheduler("ticker");
    p.that("a repeating job runs again and again", ticks >= 3, `${ticks} runs`);
  });
}
