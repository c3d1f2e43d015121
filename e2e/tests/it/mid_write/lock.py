"""Takes a lock with kazoo, and says how that went: lock.py SERVERS DIRECTORY"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

servers, directory = sys.argv[1:]
client = KazooClient(hosts=servers, timeout=30.0)
client.start()
lock = client.Lock(directory, "me")
try:
    lock.acquire(timeout=20)
    outcome = "held by one contender"
except LockTimeout:
    outcome = "timed out"
print(f"outcome: {outcome} of {len(client.get_children(directory))}", flush=True)
client.stop()
