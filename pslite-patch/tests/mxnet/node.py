"""One node of an MXNet dist_sync job: the scheduler, a server or a worker, as DMLC_ROLE says.

A worker initialises keys of the given sizes (in floats), then pushes and pulls all of them round by round. The server
adds up what the workers push and takes the sum; each worker compares every value that it pulls with that.

python node.py ROUNDS FLOATS[,FLOATS...]
"""

import os
import sys

import mxnet as mx


def main() -> None:
    # A scheduler or a server stays inside this import until the job is over.
    rounds = int(sys.argv[1])
    sizes = [int(size) for size in sys.argv[2].split(",")]
    store = mx.kv.create("dist_sync")
    for key, size in enumerate(sizes):
        store.init(key, mx.nd.zeros((size,)))
    pulled = [mx.nd.zeros((size,)) for size in sizes]
    for number in range(1, rounds + 1):
        for key, size in enumerate(sizes):
            store.push(key, mx.nd.full((size,), number * (store.rank + 1)))
            store.pull(key, out=pulled[key])
        want = number * sum(range(1, store.num_workers + 1))
        for out in pulled:
            low, high = float(out.min().asscalar()), float(out.max().asscalar())
            assert low == high == want, (number, low, high, want)
    mx.nd.waitall()
    print(f"worker {store.rank} of {store.num_workers} pid {os.getpid()}: done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
