"""Runs real Python clients, with their default options, against the server at HOST PORT."""

import logging
import os
import sys

import job_queues
import lock_libraries
import redis_asyncio
import redis_py
from check import Probe, play

MODULES = [redis_py, redis_asyncio, lock_libraries, job_queues]


def main():
    if len(sys.argv) == 3:
        host, port = sys.argv[1], int(sys.argv[2])
    elif os.environ.get("KHOA_HOST") and os.environ.get("KHOA_PORT"):
        host, port = os.environ["KHOA_HOST"], int(os.environ["KHOA_PORT"])
    else:
        sys.exit("usage: main.py HOST PORT (or set KHOA_HOST and KHOA_PORT)")
    logging.basicConfig(level=logging.CRITICAL)
    print(f"# Python clients against {host}:{port}")
    for module in MODULES:
        for scenario in module.scenarios():
            play(scenario, host, port)
    if Probe.failed:
        sys.exit(f"{Probe.failed} checks of the Python clients failed")


if __name__ == "__main__":
    main()
