"""A stock MXNet job with parameter servers, `dist_sync`: workers push gradients, servers add them up, workers pull sums.

It knows nothing of Sluice. What a process is, DMLC_ROLE says, as dmlc's trackers set it; a scheduler or a server stays
inside the import of MXNet until the job is over. A worker prints one JSON line per iteration with its begin and end
(CLOCK_MONOTONIC, ns), and one at the end with a hash of all sums and of the final weights, so that two runs can be
compared bit by bit. Gradients are multiples of 1/1024, so that their sums are exact in whatever order they come.
"""

import argparse
import hashlib
import json
import time

import mxnet as mx
import numpy as np

KEYS = 4


def say(**fields):
    print(json.dumps(fields), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--megabytes", type=float, default=20.0, help="gradients per iteration, MB of float32")
    parser.add_argument("--load-ms", type=float, default=100.0, help="computing in each iteration")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    store = mx.kv.create("dist_sync")
    count = max(1, int(args.megabytes * 1e6 / 4 / KEYS))
    weights = [np.zeros(count, dtype=np.float32) for _ in range(KEYS)]
    pulled = [mx.nd.zeros((count,)) for _ in range(KEYS)]
    for key in range(KEYS):
        store.init(key, mx.nd.zeros((count,)))
    base = ((np.arange(count) * (args.seed + store.rank + 1)) % 2048 - 1024).astype(np.float32) / 1024
    say(event="begin", rank=store.rank, gradient_bytes=4 * count * KEYS)

    sums = hashlib.sha256()
    for i in range(args.iterations):
        begin = time.monotonic_ns()
        time.sleep(args.load_ms / 1000)
        gradients = [mx.nd.array(base + np.float32((i + key) / 1024)) for key in range(KEYS)]
        mx.nd.waitall()
        sync = time.monotonic_ns()
        for key in range(KEYS):
            store.push(key, gradients[key], priority=-key)
            store.pull(key, out=pulled[key], priority=-key)
        mx.nd.waitall()
        say(event="iteration", rank=store.rank, i=i, begin_ns=begin, sync_ns=sync, end_ns=time.monotonic_ns())
        for key in range(KEYS):
            total = pulled[key].asnumpy()
            sums.update(total[:4096].tobytes())
            weights[key] -= np.float32(1 / 64) * total
    final = hashlib.sha256()
    for weight in weights:
        final.update(weight.tobytes())
    say(event="end", rank=store.rank, losses=sums.hexdigest(), weights=final.hexdigest())


if __name__ == "__main__":
    main()
