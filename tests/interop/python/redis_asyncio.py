"""redis-py's asyncio client: its `Lock` with many tasks, its timeouts, and cancelled waiters."""

import asyncio
import time

import redis.asyncio as redis
from redis.exceptions import LockError, LockNotOwnedError

from check import Probe, in_processes


def scenarios():
    return [lock, lock_contention, lock_in_processes, techniques]


def probe(topic):
    return Probe("redis", topic, "redis-py asyncio")


def lock(host, port):
    asyncio.run(lock_story(host, port))


async def lock_story(host, port):
    p = probe("Lock")
    name = p.key("lock")
    async with redis.Redis(host=host, port=port) as client:
        a, b = client.lock(name, timeout=10), client.lock(name, timeout=10, blocking_timeout=0.2)
        p.equal("A acquires it", await a.acquire(), True)
        start = time.monotonic()
        p.equal("B gives up while A holds it", await b.acquire(), False)
        p.between("at its blocking timeout", time.monotonic() - start, 0.05, 2)
        p.equal("A owns it and B does not", (await a.owned(), await b.owned()), (True, False))
        await a.extend(20)
        p.between("extend adds to what is left", await client.pttl(name), 29_000, 30_000)
        await a.reacquire()
        p.between("reacquire sets the first timeout again", await client.pttl(name), 9_000, 10_000)
        waiting = asyncio.create_task(client.lock(name, timeout=10).acquire())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await a.release()
        p.equal("after a cancelled waiter and a release no key is left", await client.exists(name), 0)
        short = client.lock(name, timeout=0.1)
        await short.acquire()
        heir = client.lock(name, timeout=10, sleep=0.01)
        p.equal("a waiter acquires it at its timeout", await heir.acquire(blocking_timeout=5), True)
        try:
            await short.release()
            p.that("the late holder's release is refused", False, "released")
        except LockNotOwnedError:
            p.equal("the late holder's release is refused", await heir.owned(), True)
        await heir.release()
        try:
            await heir.release()
            p.that("a second release is an error", False, "released twice")
        except LockError:
            p.that("a second release is an error", True)


def lock_contention(host, port):
    asyncio.run(contention_story(host, port))


async def contention_story(host, port):
    p = probe("Lock contention")
    inside, peak = [], []
    async with redis.Redis(host=host, port=port) as client:

        async def pass_through():
            async with client.lock(p.key("lock"), timeout=10, sleep=0.003):
                inside.append(1)
                peak.append(len(inside))
                await asyncio.sleep(0.002)
                inside.pop()

        await asyncio.gather(*(pass_through() for _ in range(50)))
    p.equal("50 tasks pass through it with a peak of 1", (len(peak), max(peak)), (50, 1))


def lock_in_processes(host, port):
    p = probe("Lock contention")
    name = p.key("lock")
    p.that("3 processes of 10 tasks each take it", in_processes(3, contend, host, port, name))
    p.equal("and no count is lost", asyncio.run(read_count(host, port, name)), 30)


def contend(_, host, port, name):
    asyncio.run(contend_story(host, port, name))


async def contend_story(host, port, name):
    async with redis.Redis(host=host, port=port) as client:

        async def once():
            async with client.lock(name, timeout=10, sleep=0.003):
                count = int(await client.get(name + ":count") or 0)
                await asyncio.sleep(0.002)
                await client.set(name + ":count", count + 1, ex=60)

        await asyncio.gather(*(once() for _ in range(10)))


async def read_count(host, port, name):
    async with redis.Redis(host=host, port=port) as client:
        return int(await client.get(name + ":count") or 0)


def techniques(host, port):
    asyncio.run(techniques_story(host, port))


async def techniques_story(host, port):
    p = probe("typical use")
    async with redis.Redis(host=host, port=port, decode_responses=True) as client:
        taken = []

        async def worker():
            while (item := await client.brpop([p.key("tasks")], 1)) is not None:
                taken.append(int(item[1]))

        workers = [asyncio.create_task(worker()) for _ in range(4)]
        await asyncio.sleep(0.05)
        for n in range(100):
            await client.lpush(p.key("tasks"), n)
        await asyncio.gather(*workers)
        p.equal("4 waiting workers take each of 100 tasks exactly once", sorted(taken), list(range(100)))
        async with client.pubsub(ignore_subscribe_messages=True) as listener:
            await listener.psubscribe(p.key("*"))
            while await client.publish(p.key("news"), "early") == 0:
                await asyncio.sleep(0.01)
            await client.publish(p.key("news"), "last")
            async for message in listener.listen():
                if message["data"] == "last":
                    break
            p.equal("a pattern subscriber reads the message", message["channel"], p.key("news"))
        async with client.pipeline(transaction=True) as pipe:
            hits = [await pipe.incr(p.key("rate")).expire(p.key("rate"), 60, nx=True).execute() for _ in range(3)]
        p.equal("INCR and EXPIRE NX in MULTI count three hits", hits, [[1, True], [2, False], [3, False]])
        await client.delete(p.key("rate"))
