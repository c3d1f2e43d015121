"""pytest plugin: tells what became of each test, in the JSON lines of Rust's test harness.

KAZOO_EVENTS=file   (required) where they are written, a line as soon as a test has ended.
"""
import json
import os

_names, _seconds, _outputs, _skipped = {}, {}, {}, set()


def pytest_itemcollected(item):
    """module::Class::test: pytest finds it again by that name. The node id begins with a path instead, and at what
    folder that path begins depends on where pytest was started."""
    _names[item.nodeid] = "::".join([item.module.__name__, *item.nodeid.split("::")[1:]])


def pytest_runtest_logreport(report):
    test = report.nodeid
    _seconds[test] = _seconds.get(test, 0) + report.duration
    if report.failed:
        _outputs[test] = _outputs.get(test, "") + report.longreprtext + "\n"
    elif report.skipped:
        _skipped.add(test)
    if report.when != "teardown":
        return
    event = {"type": "test", "name": _names[test], "exec_time": _seconds[test]}
    if test in _outputs:
        event.update(event="failed", stdout=_outputs[test])
    else:
        event["event"] = "ignored" if test in _skipped else "ok"
    with open(os.environ["KAZOO_EVENTS"], "a") as out:
        out.write(json.dumps(event) + "\n")
