// What every Node scenario uses: claims printed one a line, and a section that shows a broken lock.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";

export { sleep };

// A server that never answers is a failure, not a hang.
const DEADLINE_MS = 60_000;

let failed = 0;

export class Probe {
  constructor(name, topic, label = name) {
    this.label = `${label} ${version(name)} | ${topic}`;
    this.prefix = `interop:node:${process.pid}:${process.hrtime.bigint()}:`;
  }

  // A name that no other scenario and no other run uses.
  key(name) {
    return this.prefix + name;
  }

  that(claim, holds, detail = "") {
    if (!holds) failed += 1;
    const cause = detail.replaceAll("\n", " / ").slice(0, 400);
    console.log(holds ? `ok   ${this.label} | ${claim}` : `FAIL ${this.label} | ${claim} | ${cause}`);
  }

  equal(claim, got, want) {
    this.that(claim, isDeepStrictEqual(got, want), `got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }

  between(claim, got, low, high) {
    this.that(claim, low <= got && got <= high, `got ${got}, want ${low} to ${high}`);
  }

  async rejects(claim, promise, pattern) {
    const error = await promise.then(() => undefined, (cause) => cause);
    this.that(claim, error !== undefined && pattern.test(String(error)), `got ${error ?? "no error"}`);
  }
}

// Plays one scenario: the package, the topic, the story and what to call the package in the results;
// an error that it did not ask for is a failed check, and the others still run.
export async function play([name, topic, story, label], address) {
  const probe = new Probe(name, topic, label);
  const late = sleep(DEADLINE_MS, undefined, { ref: false }).then(() => {
    throw new Error(`no end within ${DEADLINE_MS} ms`);
  });
  try {
    await Promise.race([story(probe, address), late]);
  } catch (error) {
    probe.that("runs to its end", false, String(error?.stack ?? error));
  }
}

export function failures() {
  return failed;
}

// Counts how many are inside at once, staying for long enough that a broken lock would let another in.
export class Section {
  inside = 0;
  peak = 0;
  passes = 0;

  async pass() {
    this.inside += 1;
    this.peak = Math.max(this.peak, this.inside);
    await sleep(2);
    this.passes += 1;
    this.inside -= 1;
  }
}

export function version(name) {
  const manifest = new URL(`node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version.replace(/^v/, "");
}
