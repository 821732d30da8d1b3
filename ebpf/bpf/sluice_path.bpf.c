// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * For test networks inside one machine: random loss, since the machine may have no netem, and cutting the tie between a
 * packet and the socket that sent it.
 */
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

/* Fixed by the user-space ABI of the kernel; only the part up to the interface. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 unused[7];
	__u32 ifindex;
};

static __u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static long (*bpf_clone_redirect)(struct __sk_buff *skb, __u32 ifindex, __u64 flags) = (void *)13;

#define BPF_F_INGRESS 1
/* Tells a clone from what has just arrived. */
#define CLONED 0x51c1ce

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

/*
 * Replaces each arriving packet by a clone, which belongs to no socket. Packets keep their sender's socket from one
 * namespace to the next, and TCP lets a socket have only some two bursts in all the queues below it; that is meant for
 * the sender's own interface, but in a network inside one machine it holds for the queues of the switches too.
 */
SEC("classifier/orphan")
int sluice_orphan(struct __sk_buff *skb)
{
	if (skb->mark == CLONED) {
		skb->mark = 0;
		return TC_ACT_OK;
	}
	skb->mark = CLONED;
	if (!bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
		return TC_ACT_SHOT;
	skb->mark = 0;
	return TC_ACT_OK;
}
