"""Answers at once, but lets the first attempt at some messages fail."""
import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked["attempt"] == 1 and asked["body"] == "fails once":
        answer = '{"id":"%s","ok":false,"error":"not yet"}\n'
    else:
        answer = '{"id":"%s","ok":true}\n'
    sys.stdout.write(answer % asked["id"])
    sys.stdout.flush()
