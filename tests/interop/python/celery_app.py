"""The Celery application of the queue scenario, imported by its workers and by its caller."""

import os

from celery import Celery

import jobs

URL = f"redis://{os.environ['KHOA_HOST']}:{os.environ['KHOA_PORT']}/0"
app = Celery("interop", broker=URL, backend=URL)
app.conf.task_default_queue = os.environ["KHOA_PREFIX"] + "celery"
app.conf.result_expires = 120


@app.task
def record(key, item):
    return jobs.record(key, item)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(autoretry_for=(RuntimeError,), default_retry_delay=0.2, max_retries=5)
def flaky(key):
    return jobs.fails_twice(key)
