"""Takes part with kazoo: groups.py SERVERS RECIPE PATH IDENTIFIER [NUMBER]

RECIPE is semaphore, party, barrier, double or counter. Says what has happened, one word a line, and goes on at SIGTERM."""

import signal
import sys
import threading

from kazoo.client import KazooClient

servers, recipe, path, identifier, number = (sys.argv[1:] + ["0"])[:5]
go_on = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: go_on.set())


def say(*words):
    print(*words, flush=True)


def wait():
    # In pieces, so that the main thread gets to hear of signals.
    while not go_on.wait(0.05):
        pass
    go_on.clear()


def in_background(call):
    # A call that waits must not keep the main thread from signals.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)


def semaphore():
    semaphore = client.Semaphore(path, identifier, max_leases=int(number))
    try:
        semaphore.acquire()
    except ValueError as error:
        say("refused", error)
        return
    say("in")
    say("holders", *sorted(semaphore.lease_holders()))
    wait()
    semaphore.release()
    say("out")


def party():
    party = client.Party(path, identifier)
    party.join()
    say("in")
    wait()
    say("members", *sorted(party))
    party.leave()
    say("out")


def barrier():
    barrier = client.Barrier(path)
    if identifier == "creates":
        barrier.create()
        say("up")
        wait()
        barrier.remove()
        say("down")
    else:
        say("waits")
        barrier.wait()
        say("through")


def double():
    barrier = client.DoubleBarrier(path, int(number), identifier)
    in_background(barrier.enter)
    say("in")
    wait()
    say("leaves")
    in_background(barrier.leave)
    say("out")


def counter():
    counter = client.Counter(path)
    say("begins", counter.value)
    for _ in range(int(number)):
        counter += 1
    say("done")


client = KazooClient(hosts=servers, timeout=4.0)
client.start()
globals()[recipe]()
client.stop()
