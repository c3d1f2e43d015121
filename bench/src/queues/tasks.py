"""One task that does nothing but say that it was done, for each of the peers; and what puts it into their queues.

The queue servers are told by REDIS_PORT. A task says its end by a line to the pipe STAMPS: when it was put and when it ended,
in nanoseconds. That costs the same for all, and less than a round trip to Redis.
"""
import os
import sys
import time

PORT = os.environ.get("REDIS_PORT", "6379")
URL = "redis://127.0.0.1:%s/0" % PORT

_channel = None


def stamp(put_ns):
    global _channel
    if _channel is None:
        _channel = os.open(os.environ["STAMPS"], os.O_WRONLY)
    os.write(_channel, b"%d %d\n" % (put_ns, time.time_ns()))


def celery_app():
    import celery

    app = celery.Celery("tasks", broker=URL)
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=4, broker_connection_retry_on_startup=True)
    return app, app.task(name="stamp")(stamp)


def dramatiq_actor():
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    # Without retries and limits that a task like this does not need; they only cost.
    dramatiq.set_broker(RedisBroker(url=URL))
    return dramatiq.actor(stamp)


def rq_queue():
    import redis
    import rq

    return rq.Queue("default", connection=redis.Redis(port=int(PORT)))


def putter(peer):
    """What puts one task into a peer's queue."""
    if peer == "celery":
        _, task = celery_app()
        return lambda: task.delay(time.time_ns())
    if peer == "dramatiq":
        actor = dramatiq_actor()
        return lambda: actor.send(time.time_ns())
    if peer == "rq":
        queue = rq_queue()
        return lambda: queue.enqueue("tasks.stamp", time.time_ns(), result_ttl=0)
    raise ValueError(peer)


def main(peer, count, rate):
    """Puts so many, all at once or at a rate."""
    put, count, rate = putter(peer), int(count), float(rate)
    began = time.monotonic()
    for number in range(count):
        if rate:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        put()
    print(count / (time.monotonic() - began))


if __name__ == "__main__":
    main(*sys.argv[1:4])
elif os.environ.get("PEER") == "celery":
    app, _ = celery_app()
elif os.environ.get("PEER") == "dramatiq":
    actor = dramatiq_actor()
