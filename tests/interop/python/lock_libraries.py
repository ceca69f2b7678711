"""Lock libraries on redis-py: python-redis-lock with its wake-up list, and pottery's Redlock over three databases."""

import threading
import time

import redis
import redis_lock
from pottery import NextID, RedisDict, Redlock
from pottery.exceptions import ReleaseUnlockedLock

from check import Probe, careless_increment, in_processes


def scenarios():
    return [waking_lock, waking_lock_renewal, waking_lock_in_processes, quorum_lock, quorum_lock_contention, containers]


def waking_lock(host, port):
    p = Probe("python-redis-lock", "acquire and release")
    client = redis.StrictRedis(host, port)
    name = p.key("lock")
    a = redis_lock.Lock(client, name, expire=10, id="holder a")
    b = redis_lock.Lock(client, name, expire=10, id="holder b")
    p.equal("A acquires it", a.acquire(blocking=False), True)
    p.equal("B is refused", b.acquire(blocking=False), False)
    p.equal("B reads who owns it", b.get_owner_id(), "holder a")
    start = time.monotonic()
    p.equal("B's wait is bounded by its timeout", b.acquire(timeout=1), False)
    p.between("of one second", time.monotonic() - start, 0.9, 3)
    with p.raises("B cannot release it", redis_lock.NotAcquired):
        b.release()
    threading.Timer(0.3, a.release).start()
    start = time.monotonic()
    p.equal("a waiter acquires it on release", b.acquire(), True)
    p.between("woken by the signal list", time.monotonic() - start, 0.2, 2)
    b.reset()
    p.equal("a reset frees it whoever holds it", a.locked(), False)


def waking_lock_renewal(host, port):
    p = Probe("python-redis-lock", "renewal and extension")
    client = redis.StrictRedis(host, port)
    with redis_lock.Lock(client, p.key("auto"), expire=1, auto_renewal=True) as held:
        time.sleep(1.8)
        p.equal("with auto_renewal it outlives its expiry", held.locked(), True)
    p.equal("and leaves with its block", held.locked(), False)
    lock = redis_lock.Lock(client, p.key("lock"), expire=5)
    lock.acquire()
    lock.extend(60)
    p.between("extend sets the new expiry", client.ttl("lock:" + p.key("lock")), 55, 60)
    client.set("lock:" + p.key("lock"), "another", ex=5)
    with p.raises("another's lock cannot be extended", redis_lock.NotAcquired):
        lock.extend(60)
    client.delete("lock:" + p.key("lock"))


def waking_lock_in_processes(host, port):
    p = Probe("python-redis-lock", "contention")
    name = p.key("lock")
    p.that("4 processes lock 25 times each", in_processes(4, contend_waking, host, port, name))
    p.equal("and no count is lost", int(redis.StrictRedis(host, port).get(name + ":count") or 0), 100)


def contend_waking(_, host, port, name):
    client = redis.StrictRedis(host, port)
    for _ in range(25):
        with redis_lock.Lock(client, name, expire=10):
            careless_increment(client, name + ":count")


def nodes(host, port):
    """Three databases of the one server stand for three nodes."""
    return {redis.Redis(host, port, db=n) for n in range(3)}


def quorum_lock(host, port):
    p = Probe("pottery", "Redlock over three")
    masters = nodes(host, port)
    a = Redlock(key=p.key("lock"), masters=masters, auto_release_time=5)
    b = Redlock(key=p.key("lock"), masters=masters, auto_release_time=5)
    p.equal("A acquires it", a.acquire(), True)
    p.between("and reads what is left of its lease", a.locked(), 4, 5)
    p.equal("B is refused", b.acquire(blocking=False), False)
    p.equal("B's wait is bounded", b.acquire(timeout=0.3), False)
    time.sleep(0.2)
    before = a.locked()
    a.extend()
    # It returns once two of the three have agreed; the third may be a moment later.
    extended = any(a.locked() > before or time.sleep(0.02) for _ in range(100))
    p.that("extend gives the whole lease again", extended, (before, a.locked()))
    a.release()
    with p.raises("a second release is an error", ReleaseUnlockedLock):
        a.release()
    p.equal("then B acquires it", b.acquire(blocking=False), True)
    b.release()


def quorum_lock_contention(host, port):
    p = Probe("pottery", "Redlock contention")
    name = p.key("lock")
    p.that("3 processes lock 5 times each", in_processes(3, contend_quorum, host, port, name))
    p.equal("and no count is lost", int(redis.Redis(host, port).get(name + ":count") or 0), 15)


def contend_quorum(_, host, port, name):
    client = redis.Redis(host, port)
    for _ in range(5):
        with Redlock(key=name, masters=nodes(host, port), auto_release_time=10):
            careless_increment(client, name + ":count")


def containers(host, port):
    p = Probe("pottery", "NextID and RedisDict")
    client = redis.Redis(host, port)
    ids = NextID(key=p.key("ids"), masters=nodes(host, port))
    p.equal("NextID counts", [next(ids) for _ in range(3)], [1, 2, 3])
    table = RedisDict({"a": 1}, redis=client, key=p.key("dict"))
    table["b"] = [2, "two"]
    p.equal("a RedisDict keeps values of any shape", (table["a"], table["b"], len(table)), (1, [2, "two"], 2))
    client.delete(p.key("dict"))
