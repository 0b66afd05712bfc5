"""An application of replicas that a test commands on standard input: one command a line, answered by a line.

    python launcher.py OPTIONS    OPTIONS: JSON of `replicas.options.Options`
    update {...}                  deploy again with these options changed
    quit                          drain, and end
"""

from __future__ import annotations

import json
import sys

from reactor_trio.replicas.cluster import Application, local_cluster
from reactor_trio.replicas.options import parse_options


def main() -> None:
    values = json.loads(sys.argv[1])
    application = Application("reactor")
    with local_cluster(0):
        application.deploy(parse_options(values))
        print("ready", flush=True)
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "quit":
                break
            values |= json.loads(rest)
            application.deploy(parse_options(values))
            print("updated", flush=True)
        application.take_down()
    print("gone", flush=True)


if __name__ == "__main__":
    main()
