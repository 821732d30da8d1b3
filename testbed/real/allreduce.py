"""All-reduce with Open MPI over TCP, again and again, with a pause for computing: no library but libmpi, by ctypes.

It knows nothing of Sluice. One JSON line per iteration with its begin and end (CLOCK_MONOTONIC, ns), one at the end with
a hash of all sums, so that two runs can be compared bit by bit.
"""

import argparse
import ctypes
import hashlib
import json
import os
import time


def say(**fields):
    print(json.dumps(fields), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--megabytes", type=float, default=20.0, help="float32 that are summed per iteration, MB")
    parser.add_argument("--load-ms", type=float, default=100.0, help="computing in each iteration")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, real, total = (ctypes.addressof(ctypes.c_char.in_dll(mpi, name)) for name in
                          ("ompi_mpi_comm_world", "ompi_mpi_float", "ompi_mpi_op_sum"))
    world, real, total = ctypes.c_void_p(world), ctypes.c_void_p(real), ctypes.c_void_p(total)
    mpi.MPI_Init(None, None)
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    count = int(args.megabytes * 1e6 / 4)
    mine = (ctypes.c_float * count)(*((args.seed + i % 1000 * (rank + 1)) / 7 for i in range(count)))
    summed = (ctypes.c_float * count)()
    say(event="begin", rank=rank, gradient_bytes=4 * count)
    sums = hashlib.sha256()
    mpi.MPI_Barrier(world)
    for i in range(args.iterations):
        begin = time.monotonic_ns()
        time.sleep(args.load_ms / 1000)
        mine[i % count] += i
        sync = time.monotonic_ns()
        mpi.MPI_Allreduce(mine, summed, count, real, total, world)
        say(event="iteration", rank=rank, i=i, begin_ns=begin, sync_ns=sync, end_ns=time.monotonic_ns())
        sums.update(memoryview(summed).cast("B")[: 1 << 16])
    sums.update(memoryview(summed).cast("B"))
    say(event="end", rank=rank, losses=sums.hexdigest(), weights="")
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main()
