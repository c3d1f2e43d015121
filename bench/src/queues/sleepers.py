"""A task that sleeps for 10 ms, for `menagerie worker --serve --async`: many sleep at the same time.

All sleep equally long, so those that came first are due first: a queue does, and an event loop with a task and a timer for
each message would only measure itself. What is due together is answered with one write.
"""
import collections
import json
import os
import select
import sys
import time

SLEEP_NS = 10_000_000

stamps = os.open(os.environ["STAMPS"], os.O_WRONLY)
stdin, stdout = sys.stdin.fileno(), sys.stdout.fileno()
asleep = collections.deque()
rest = b""
is_open = True


def wake():
    """Answers all that have slept long enough."""
    now = time.monotonic_ns()
    due = []
    while asleep and asleep[0][0] <= now:
        due.append(asleep.popleft())
    if due:
        # As many as sleep at a time are short enough for a pipe to take them whole.
        ended = time.time_ns()
        os.write(stamps, b"".join(b"%s %d\n" % (put.encode(), ended) for _, _, put in due))
        os.write(stdout, "".join('{"id":"%s","ok":true}\n' % id for _, id, _ in due).encode())


while is_open or asleep:
    timeout = max(0, asleep[0][0] - time.monotonic_ns()) / 1e9 if asleep else None
    readable, _, _ = select.select([stdin] if is_open else [], [], [], timeout)
    if readable:
        text = os.read(stdin, 1 << 16)
        is_open = bool(text)
        *lines, rest = (rest + text).split(b"\n")
        until = time.monotonic_ns() + SLEEP_NS
        for line in lines:
            asked = json.loads(line)
            asleep.append((until, asked["id"], asked["body"]))
    wake()
