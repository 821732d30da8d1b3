// SPDX-License-Identifier: MIT OR Apache-2.0
/* Drops packets at random, for tests: the machine they run on may have no netem. */
#include "sluice_kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TC_ACT_OK 0
#define TC_ACT_SHOT 2

struct sluice_loss {
	/* Of 2^32 packets so many are dropped. */
	__u64 probability;
	/* Packets no longer than this always pass, so that bare acknowledgements do. */
	__u64 shortest;
	__u64 passed;
	__u64 dropped;
};

struct {
	COUNT(BPF_MAP_TYPE_ARRAY, type);
	COUNT(1, max_entries);
	VALUE(__u32, key);
	VALUE(struct sluice_loss, value);
} sluice_loss SEC(".maps");

/* Fixed by the user-space ABI of the kernel; only its beginning. */
struct __sk_buff {
	__u32 len;
};

static __u32 (*bpf_get_prandom_u32)(void) = (void *)7;

SEC("classifier/drop")
int sluice_drop(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct sluice_loss *loss = bpf_map_lookup_elem(&sluice_loss, &zero);

	if (!loss || skb->len <= loss->shortest)
		return TC_ACT_OK;
	if (bpf_get_prandom_u32() < loss->probability) {
		__sync_fetch_and_add(&loss->dropped, 1);
		return TC_ACT_SHOT;
	}
	__sync_fetch_and_add(&loss->passed, 1);
	return TC_ACT_OK;
}
