"""Runs a Python function for each message from menagerie's worker.

This process loads the modules and builds the context once; a fork of it handles each message, and the fork's process
group ends with it. The worker writes JSON lines to standard input and reads answers from standard output. The function
can use neither stream: it reads nothing, and what it prints goes to standard error.
"""
import base64
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import traceback


class Message:
    """A message, as the function receives it."""

    __slots__ = ("id", "queue", "partition", "attempt", "fence", "body")

    def __init__(self, fields):
        self.id = fields["id"]
        self.queue = fields["queue"]
        self.partition = fields["partition"]
        self.attempt = fields["attempt"]
        self.fence = fields["fence"]
        if "body" in fields:
            self.body = fields["body"].encode()
        else:
            self.body = base64.b64decode(fields["body_base64"])

    def __getitem__(self, name):
        """Attribute access by key, for functions written for messages that are dictionaries."""
        if name not in self.__slots__:
            raise KeyError(name)
        return getattr(self, name)

    @property
    def text(self):
        """The body as text."""
        return self.body.decode()

    def json(self):
        """The body parsed as JSON."""
        return json.loads(self.body)


def load(name):
    """Imports the function named `module:function`."""
    module, _, function = name.partition(":")
    if not function:
        raise ValueError("%r does not have the form module:function" % name)
    found = importlib.import_module(module)
    for part in function.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError("%s is no function" % name)
    # Calling an object calls its __call__ method.
    for called in (found, getattr(found, "__call__", None)):
        if any(is_later(called) for is_later in LATER_FUNCTIONS):
            raise TypeError("%s is no plain function but %s" % (name, LATER))
    return found


# Calling one of these does not run its body.
LATER = "a coroutine or a generator: call it in a function, by asyncio.run() or in a loop"
LATER_FUNCTIONS = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
LATER_VALUES = (inspect.isawaitable, inspect.isgenerator, inspect.isasyncgen)


class NotRun(TypeError):
    """The function returned something that still has to be run."""

    retry = False


def call(function, *arguments):
    """Calls the function, which must have finished its work when it returns."""
    returned = function(*arguments)
    if any(is_later(returned) for is_later in LATER_VALUES):
        raise NotRun("it returned %s" % LATER)
    return returned


def encode(what):
    """Encodes as JSON. A lone surrogate, as in a file name that is not UTF-8, becomes a question mark."""
    return json.dumps(what, ensure_ascii=False).encode("utf-8", "replace")


def say(channel, what):
    channel.write(encode(what) + b"\n")
    channel.flush()


def flush():
    """Flushes our streams: output buffered at a fork would appear twice, and at the end of a fork never."""
    sys.stdout.flush()
    sys.stderr.flush()


def threads():
    """Why a fork would be unsafe, or None: a lock held by another thread is never released in the child."""
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others:
        return "threads run before the fork: %s; start them in the function or in --after-fork" % ", ".join(others)
    return None


def outcome(message, error=None, retry=True):
    if error is None:
        return {"id": message.id, "ok": True}
    return {"id": message.id, "ok": False, "error": error, "retry": retry}


def complain(error):
    """Prints the traceback; returns the error text and whether another attempt may succeed."""
    traceback.print_exc()
    retry = getattr(error, "retry", None)
    return describe(error), retry is None or bool(retry)


def describe(error):
    try:
        return ": ".join(filter(None, (type(error).__name__, str(error))))
    except Exception:
        return type(error).__name__


def handle(function, after_fork, context, messages, batch):
    """Handles the messages, in the child."""
    try:
        if after_fork is not None:
            call(after_fork, context)
        if not batch:
            call(function, messages[0], context)
            return [outcome(messages[0])]
        answers = call(function, messages, context)
        if answers is None:
            return [outcome(message) for message in messages]
        # Per message: None or True if done, otherwise False or the error.
        outcomes = [
            outcome(message, None if answer is None or answer is True else str(answer or "it failed"))
            for message, answer in zip(messages, answers)
        ]
        if len(outcomes) != len(messages):
            raise ValueError("%d answers for %d messages" % (len(outcomes), len(messages)))
        return outcomes
    # Catch everything: nobody else would report it.
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return [outcome(message) for message in messages]
        why, retry = complain(error)
        return [outcome(message, why, retry) for message in messages]


def fork(protocol, function, after_fork, context, messages, batch):
    """Handles messages in a child, and returns their outcomes."""
    unsafe = threads()
    if unsafe:
        return [outcome(message, unsafe) for message in messages]
    # Not a pipe: processes that the function leaves behind would hold it open, and we would wait for them.
    with os.fdopen(os.memfd_create("answer"), "w+b") as answer:
        flush()
        child = os.fork()
        if child == 0:
            be_child(protocol, answer, lambda: handle(function, after_fork, context, messages, batch))
        lead(child)
        # Until we reap the child, the kernel does not reuse its process group id.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
        _, status = os.waitpid(child, 0)
        answer.seek(0)
        written = answer.read()
    try:
        return json.loads(written)
    except ValueError:
        if os.WIFSIGNALED(status):
            why = "its process was ended by signal %d" % os.WTERMSIG(status)
        else:
            why = "its process ended with code %d" % os.WEXITSTATUS(status)
        return [outcome(message, why) for message in messages]


def be_child(protocol, answer, work):
    """Does the work, writes the outcomes, and exits."""
    status = 1
    try:
        lead(0)
        for ours in protocol:
            os.close(ours.fileno())
        answer.write(encode(work()))
        answer.flush()
        status = 0
    finally:
        try:
            flush()
        finally:
            os._exit(status)


def lead(process):
    """Gives a process a group of its own. Parent and child both do it, so that neither continues before it is done."""
    try:
        os.setpgid(process, process)
    except (PermissionError, ProcessLookupError):
        pass


def main(name, on_startup, after_fork, shape):
    # Keep the protocol's streams to ourselves: printed text must not get in between, and a function that reads standard
    # input must not get our messages.
    source, channel = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Line buffered, so that the output of a killed task is not lost.
    sys.stdout.reconfigure(line_buffering=True)
    sys.path.insert(0, os.getcwd())
    try:
        function = load(name)
        hook = load(after_fork) if after_fork else None
        context = load(on_startup)() if on_startup else None
    except BaseException as error:
        traceback.print_exc()
        say(channel, {"ready": False, "error": describe(error)})
        return 1
    unsafe = threads()
    if unsafe:
        say(channel, {"ready": False, "error": unsafe})
        return 1
    say(channel, {"ready": True})
    batch = shape == "list"
    for line in source:
        asked = json.loads(line)
        messages = [Message(fields) for fields in (asked if batch else [asked])]
        answers = fork((source, channel), function, hook, context, messages, batch)
        say(channel, answers if batch else answers[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
