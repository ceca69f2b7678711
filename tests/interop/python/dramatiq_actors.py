"""The Dramatiq actors of the queue scenario, imported by its workers and by its caller."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

import jobs

HOST, PORT, PREFIX = os.environ["KHOA_HOST"], int(os.environ["KHOA_PORT"]), os.environ["KHOA_PREFIX"]
broker = RedisBroker(host=HOST, port=PORT, namespace=PREFIX + "dramatiq")
broker.add_middleware(Results(backend=RedisBackend(host=HOST, port=PORT, namespace=PREFIX + "results")))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def record(key, item):
    return jobs.record(key, item)


@dramatiq.actor(store_results=True, min_backoff=100, max_backoff=200, max_retries=5)
def flaky(key):
    return jobs.fails_twice(key)
