"""redis-py: its handshake, its `Lock` with threads and processes, and its usual work."""

import threading
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError, WatchError

from check import Probe, careless_increment, in_processes


def scenarios():
    return [handshake, lock_basics, lock_timeouts, lock_extension, lock_in_processes, techniques]


def probe(topic):
    return Probe("redis", topic, "redis-py")


def handshake(host, port):
    p = probe("handshake")
    for protocol in (2, 3):
        client = redis.Redis(host, port, protocol=protocol, client_name="khoa-interop", decode_responses=True)
        p.equal(f"PING over RESP{protocol}", client.ping(), True)
        p.equal(f"the client's name is kept over RESP{protocol}", client.client_getname(), "khoa-interop")
        p.that(f"INFO is parsed over RESP{protocol}", "redis_version" in client.info("server"))
    default = redis.Redis(host, port)
    if default.info("server")["redis_version"] >= "7.2":
        listed = [c["lib-name"] for c in default.client_list()]
        p.that("CLIENT LIST names the library", any(name.startswith("redis-py") for name in listed), listed)
    p.equal("a URL with a database number connects", redis.from_url(f"redis://{host}:{port}/5").ping(), True)


def lock_basics(host, port):
    p = probe("Lock")
    client = redis.Redis(host, port)
    name = p.key("lock")
    a, b = client.lock(name, timeout=10), client.lock(name, timeout=10)
    p.equal("A acquires it", a.acquire(blocking=False), True)
    p.equal("B is refused while A holds it", b.acquire(blocking=False), False)
    p.equal("A owns it", (a.locked(), a.owned()), (True, True))
    p.equal("B sees it locked and does not own it", (b.locked(), b.owned()), (True, False))
    with p.raises("B cannot release what it never acquired", LockError):
        b.release()
    b.local.token = b"another token"
    with p.raises("nor with a token of its own", LockNotOwnedError):
        b.release()
    b.local.token = None
    a.release()
    p.equal("A's release leaves no key", client.exists(name), 0)
    with client.lock(name, timeout=10, blocking_timeout=1):
        p.equal("as a context manager it holds the key", client.exists(name), 1)
    p.equal("and gives it back", client.exists(name), 0)


def lock_timeouts(host, port):
    p = probe("Lock timeouts")
    client = redis.Redis(host, port)
    name = p.key("lock")
    client.lock(name, timeout=10).acquire()
    start = time.monotonic()
    p.equal("a blocking acquire gives up", client.lock(name).acquire(blocking_timeout=0.3), False)
    p.between("at its blocking timeout", time.monotonic() - start, 0.1, 2)
    with p.raises("as a context manager it raises then", LockError):
        with client.lock(name, blocking_timeout=0.1):
            pass
    client.delete(name)
    short = client.lock(name, timeout=0.2)
    short.acquire()
    waiter = client.lock(name, timeout=10, sleep=0.01)
    p.equal("a waiter acquires it when its timeout frees it", waiter.acquire(blocking_timeout=5), True)
    with p.raises("the late holder's release is refused", LockNotOwnedError):
        short.release()
    p.equal("and spares the waiter", waiter.owned(), True)
    waiter.release()


def lock_extension(host, port):
    p = probe("Lock extension")
    client = redis.Redis(host, port)
    name = p.key("lock")
    lock = client.lock(name, timeout=10)
    lock.acquire()
    lock.extend(20)
    p.between("extend adds to what is left", client.pttl(name), 29_000, 30_000)
    lock.extend(5, replace_ttl=True)
    p.between("extend with replace_ttl sets it", client.pttl(name), 4_000, 5_000)
    lock.reacquire()
    p.between("reacquire sets the first timeout again", client.pttl(name), 9_000, 10_000)
    client.set(name, "stolen", px=5_000)
    with p.raises("a lock taken by another cannot be extended", LockNotOwnedError):
        lock.extend(1)
    with p.raises("nor reacquired", LockNotOwnedError):
        lock.reacquire()
    with p.raises("nor released", LockNotOwnedError):
        lock.release()
    p.equal("and the other's key is still there", client.get(name), b"stolen")
    client.delete(name)


def lock_in_processes(host, port):
    p = probe("Lock contention")
    client = redis.Redis(host, port)
    name = p.key("lock")
    p.that("4 processes lock 25 times each", in_processes(4, contend, host, port, name, 25))
    p.equal("and no count is lost", int(client.get(name + ":count") or 0), 100)
    inside, peak = [], []

    def pass_through():
        with redis.Redis(host, port).lock(name, timeout=10, sleep=0.005):
            inside.append(1)
            peak.append(len(inside))
            time.sleep(0.002)
            inside.pop()

    threads = [threading.Thread(target=pass_through) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    p.equal("20 threads pass through it with a peak of 1", (len(peak), max(peak)), (20, 1))


def contend(_, host, port, name, times):
    client = redis.Redis(host, port)
    for _ in range(times):
        with client.lock(name, timeout=10, sleep=0.002):
            careless_increment(client, name + ":count")


def techniques(host, port):
    p = probe("typical use")
    client = redis.Redis(host, port, decode_responses=True)
    counter = p.key("counter")

    def increment(pipe):
        value = int(pipe.get(counter) or 0)
        pipe.multi()
        pipe.set(counter, value + 1, ex=60)

    workers = [threading.Thread(target=client.transaction, args=(increment, counter)) for _ in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    p.equal("5 threads count to 5 with WATCH and MULTI", client.get(counter), "5")
    with client.pipeline() as pipe:
        pipe.watch(counter)
        client.set(counter, 9, ex=60)
        pipe.multi()
        pipe.incr(counter)
        with p.raises("EXEC is refused when the watched key was written", WatchError):
            pipe.execute()
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(p.key("news"))
    listener.get_message(timeout=5)
    p.equal("PUBLISH reaches the subscriber", client.publish(p.key("news"), "hello"), 1)
    message = None
    while message is None:
        message = listener.get_message(timeout=5)
    p.equal("who reads it", message["data"], "hello")
    pipe = client.pipeline()
    for n in range(500):
        pipe.set(p.key(f"many:{n}"), n, ex=60)
    p.equal("a transaction of 500 commands has 500 replies", len(pipe.execute()), 500)
    p.equal("SCAN finds them", len(set(client.scan_iter(p.key("many:*"), count=50))), 500)
    script = client.register_script("return {KEYS[1], ARGV[1], redis.call('PTTL', KEYS[1])}")
    client.script_flush()
    p.equal("a registered script runs after SCRIPT FLUSH", script([p.key("none")], ["x"]), [p.key("none"), "x", -2])
    client.lpush(p.key("queue"), "a", "b")
    p.equal("BRPOP takes the oldest", client.brpop(p.key("queue"), 1), (p.key("queue"), "a"))
    p.equal("BLMOVE moves the other", client.blmove(p.key("queue"), p.key("done"), 1), "b")
    client.rpush(p.key("done"), "c", "a")
    p.equal("SORT ALPHA orders the list", client.sort(p.key("done"), alpha=True), ["a", "b", "c"])
    client.delete(p.key("done"))
