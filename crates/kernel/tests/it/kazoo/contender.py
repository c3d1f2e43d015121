"""Contends with kazoo: contender.py SERVERS RECIPE DIRECTORY IDENTIFIER

Says `held` once it holds, lets go on SIGTERM, says `released` and ends.
RECIPE is lock, read, write or election."""

import signal
import sys
import threading

from kazoo.client import KazooClient

servers, recipe, directory, identifier = sys.argv[1:]
let_go = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: let_go.set())


def say(word):
    print(word, flush=True)


def hold():
    say("held")
    # In pieces, so that the main thread gets to hear of signals.
    while not let_go.wait(0.05):
        pass


client = KazooClient(hosts=servers, timeout=4.0)
client.start()
say("connected")
if recipe == "election":
    client.Election(directory, identifier).run(hold)
else:
    kind = {"lock": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[recipe]
    with kind(directory, identifier):
        hold()
say("released")
client.stop()
