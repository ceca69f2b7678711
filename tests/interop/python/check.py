"""What every Python scenario uses: claims printed one a line, and a section that shows a broken lock."""

import importlib.metadata
import os
import time
import traceback
from contextlib import contextmanager


class Probe:
    """Makes the claims of one scenario and counts those that do not hold."""

    failed = 0

    def __init__(self, package, topic, label=None):
        version = importlib.metadata.version(package)
        self.label = f"{label or package} {version} | {topic}"
        self.prefix = f"interop:py:{os.getpid()}:{time.monotonic_ns()}:"

    def key(self, name):
        """A name that no other scenario and no other run uses."""
        return self.prefix + name

    def that(self, claim, holds, detail=""):
        if holds:
            print(f"ok   {self.label} | {claim}", flush=True)
        else:
            Probe.failed += 1
            print(f"FAIL {self.label} | {claim} | {detail}", flush=True)

    def equal(self, claim, got, want):
        self.that(claim, got == want, f"got {got!r}, want {want!r}")

    def between(self, claim, got, low, high):
        self.that(claim, low <= got <= high, f"got {got!r}, want {low!r} to {high!r}")

    @contextmanager
    def raises(self, claim, error):
        try:
            yield
        except error:
            self.that(claim, True)
        else:
            self.that(claim, False, f"{error.__name__} was not raised")


def play(scenario, *args):
    """Runs one scenario; an error that it did not ask for is a failed check, and the others still run."""
    try:
        scenario(*args)
    except Exception:
        Probe.failed += 1
        last = traceback.format_exc().strip().replace("\n", " / ")
        print(f"FAIL {scenario.__module__}.{scenario.__name__} | runs to its end | {last}", flush=True)


def in_processes(count, target, *args):
    """Runs `target` in `count` processes at once, each with its own connections; true when all end well."""
    from multiprocessing import get_context

    context = get_context("spawn")
    workers = [context.Process(target=target, args=(n, *args)) for n in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        if worker.is_alive():
            worker.kill()
    return all(worker.exitcode == 0 for worker in workers)


def careless_increment(client, key):
    """Reads, waits and writes back: two at once lose a count, which is what a lock must prevent."""
    count = int(client.get(key) or 0)
    time.sleep(0.002)
    client.set(key, count + 1, ex=60)
