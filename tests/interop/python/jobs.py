"""The work that the queues' workers run: they import it in processes of their own."""

import os

import redis


def client():
    return redis.Redis(os.environ["KHOA_HOST"], int(os.environ["KHOA_PORT"]), decode_responses=True)


def record(key, item):
    """Counts the runs of an item, so that a lost or a doubled run is seen."""
    client().hincrby(key, str(item), 1)
    return item * item


def fails_twice(key):
    """Fails until its third run, for what retries."""
    if client().incr(key) < 3:
        raise RuntimeError("not yet")
    return "third time"
