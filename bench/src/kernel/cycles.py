"""Contends with kazoo's recipe for a while; prints its cycles per second."""
import sys
import time

from kazoo.client import KazooClient

hosts, path, recipe, contenders, permits, seconds = sys.argv[1:]
client = KazooClient(hosts=hosts, timeout=30)
client.start()

# All begin together, when everybody is connected: a contender that is alone is faster than it should be.
ready = path + "-ready"
client.ensure_path(ready)
client.create(ready + "/r", ephemeral=True, sequence=True)
while len(client.get_children(ready)) < int(contenders):
    time.sleep(0.005)

if recipe == "lock":
    contest = client.Lock(path)
else:
    contest = client.Semaphore(path, max_leases=int(permits))

cycles = 0
started = time.monotonic()
until = started + float(seconds)
while time.monotonic() < until:
    contest.acquire()
    contest.release()
    cycles += 1
print(cycles / (time.monotonic() - started))
client.stop()
