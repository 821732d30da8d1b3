"""A stock DistributedDataParallel training script over Gloo: an MLP on synthetic data, on the CPU.

It knows nothing of Sluice. Rank, world size and the rendezvous come from the environment, as torchrun sets them
(RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). One JSON line per iteration with its begin and end (CLOCK_MONOTONIC, ns),
one at the end with a hash of all losses and of the final weights, so that two runs can be compared bit by bit.
"""

import argparse
import hashlib
import json
import struct
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def say(**fields):
    print(json.dumps(fields), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--megabytes", type=float, default=20.0, help="gradients per iteration, MB of float32")
    parser.add_argument("--load-ms", type=float, default=100.0,
                        help="time to wait for a batch in each iteration: stands for the accelerator's computing")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    width = max(1, int((args.megabytes * 1e6 / 4 / 2) ** 0.5))
    net = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width))
    model = DistributedDataParallel(net)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    parameters = sum(p.numel() for p in net.parameters())
    say(event="begin", rank=rank, ranks=ranks, gradient_bytes=4 * parameters)

    batch = torch.Generator().manual_seed(args.seed * 1000 + rank)
    losses = hashlib.sha256()
    dist.barrier()
    for i in range(args.iterations):
        begin = time.monotonic_ns()
        time.sleep(args.load_ms / 1000)
        x = torch.randn(1, width, generator=batch)
        y = torch.randn(1, width, generator=batch)
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        sync = time.monotonic_ns()
        loss.backward()
        optimiser.step()
        losses.update(struct.pack("<f", loss.item()))
        say(event="iteration", rank=rank, i=i, begin_ns=begin, sync_ns=sync, end_ns=time.monotonic_ns(), loss=loss.item())
    weights = hashlib.sha256()
    for parameter in net.parameters():
        weights.update(parameter.detach().numpy().tobytes())
    say(event="end", rank=rank, losses=losses.hexdigest(), weights=weights.hexdigest())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
