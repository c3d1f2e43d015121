"""The same task for `menagerie worker --serve`."""
import json
import sys

import tasks

for line in sys.stdin:
    asked = json.loads(line)
    tasks.stamp(int(asked["body"]))
    sys.stdout.write('{"id":"%s","ok":true}\n' % asked["id"])
    sys.stdout.flush()
