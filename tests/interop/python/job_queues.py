"""RQ, Celery and Dramatiq: each with worker processes of its own, started from its own command line."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import redis

from check import Probe

HERE = Path(__file__).resolve().parent
ITEMS = 50
ONCE_EACH = {str(n): "1" for n in range(ITEMS)}


def scenarios():
    return [rq_queue, celery_queue, dramatiq_queue]


@contextmanager
def workers(count, host, port, prefix, module, *arguments):
    """Runs `python -m module arguments` in `count` processes, which are asked to end when the block does."""
    env = os.environ | {"KHOA_HOST": host, "KHOA_PORT": str(port), "KHOA_PREFIX": prefix, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", module, *arguments]
    running = [subprocess.Popen(command, env=env, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield running
    finally:
        for worker in running:
            worker.send_signal(signal.SIGTERM)
        for worker in running:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()


def wait_for(condition, seconds=40):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def environment(host, port, prefix):
    """What `jobs` and the modules of Celery and Dramatiq read when this process imports them."""
    os.environ.update(KHOA_HOST=host, KHOA_PORT=str(port), KHOA_PREFIX=prefix)


def rq_queue(host, port):
    from rq import Queue, Retry

    import jobs

    p = Probe("rq", "queue with two workers", "RQ")
    environment(host, port, p.prefix)
    connection = redis.Redis(host, port)
    text = redis.Redis(host, port, decode_responses=True)
    queue = Queue(p.key("queue"), connection=connection)
    url = f"redis://{host}:{port}"
    with workers(2, host, port, p.prefix, "rq.cli", "worker", "--with-scheduler", "--url", url, queue.name):
        done = [queue.enqueue(jobs.record, p.key("runs"), n) for n in range(ITEMS)]
        p.that("all jobs finish", wait_for(lambda: all(job.get_status(refresh=True) == "finished" for job in done)))
        p.equal("each of 50 jobs ran exactly once", text.hgetall(p.key("runs")), ONCE_EACH)
        p.equal("results come back", done[7].return_value(), 49)
        first = queue.enqueue(jobs.record, p.key("chain"), 1)
        after = queue.enqueue(jobs.record, p.key("chain"), 2, depends_on=first)
        p.that("a job that depends on another runs after it", wait_for(lambda: after.get_status(refresh=True) == "finished"))
        flaky = queue.enqueue(jobs.fails_twice, p.key("tries"), retry=Retry(max=3))
        p.that("a failing job is retried", wait_for(lambda: flaky.get_status(refresh=True) == "finished"))
        p.equal("until its third run", text.get(p.key("tries")), "3")
    p.equal("workers sign off", len(connection.smembers("rq:workers")), 0)
    queue.delete(delete_jobs=True)
    text.delete(p.key("runs"), p.key("chain"), p.key("tries"))


def celery_queue(host, port):
    p = Probe("celery", "queue with two workers", "Celery")
    environment(host, port, p.prefix)
    from celery import chain, chord, group

    import celery_app as c

    text = redis.Redis(host, port, decode_responses=True)
    options = ("-A", "celery_app", "worker", "--pool", "prefork", "--concurrency", "2", "--without-mingle")
    with workers(2, host, port, p.prefix, "celery", *options):
        results = group(c.record.s(p.key("runs"), n) for n in range(ITEMS))()
        p.equal("a group of 50 gives its results in order", results.get(timeout=60), [n * n for n in range(ITEMS)])
        p.equal("each task ran exactly once", text.hgetall(p.key("runs")), ONCE_EACH)
        p.equal("a chain passes results on", chain(c.add.s(1, 2), c.add.s(10))().get(timeout=30), 13)
        p.equal("a chord joins a group", chord((c.add.s(n, n) for n in range(10)), c.total.s())().get(timeout=30), 90)
        p.equal("a failing task is retried", c.flaky.delay(p.key("tries")).get(timeout=30), "third time")
        start = time.monotonic()
        c.add.apply_async((1, 1), countdown=1).get(timeout=30)
        p.between("a countdown is kept", time.monotonic() - start, 0.9, 20)
        p.that("workers answer a broadcast ping", len(c.app.control.ping(timeout=3)) == 2)
    text.delete(p.key("runs"), p.key("tries"), c.app.conf.task_default_queue)


def dramatiq_queue(host, port):
    p = Probe("dramatiq", "queue with two workers", "Dramatiq")
    environment(host, port, p.prefix)
    import dramatiq
    from dramatiq.rate_limits import ConcurrentRateLimiter
    from dramatiq.rate_limits.backends import RedisBackend

    import dramatiq_actors as d

    text = redis.Redis(host, port, decode_responses=True)
    with workers(1, host, port, p.prefix, "dramatiq", "dramatiq_actors", "--processes", "2", "--threads", "2"):
        tasks = dramatiq.group(d.record.message(p.key("runs"), n) for n in range(ITEMS)).run()
        results = list(tasks.get_results(block=True, timeout=60_000))
        p.equal("a group of 50 gives its results in order", results, [n * n for n in range(ITEMS)])
        p.equal("each task ran exactly once", text.hgetall(p.key("runs")), ONCE_EACH)
        p.equal("a failing task is retried", d.flaky.send(p.key("tries")).get_result(block=True, timeout=30_000), "third time")
        start = time.monotonic()
        d.record.send_with_options(args=(p.key("late"), 1), delay=1000).get_result(block=True, timeout=30_000)
        p.between("a delay is kept", time.monotonic() - start, 0.9, 20)
    mutex = ConcurrentRateLimiter(RedisBackend(client=redis.Redis(host, port)), p.key("mutex"), limit=1)
    with mutex.acquire(raise_on_failure=False) as first, mutex.acquire(raise_on_failure=False) as second:
        p.equal("its limiter of 1 admits one", (first, second), (True, False))
    text.delete(p.key("runs"), p.key("tries"), p.key("late"), p.key("mutex"))
