/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The maps that all programs share, and what all of them do with a row. Every object declares the same maps; the
 * loader creates each once (or opens its pin) and gives all programs the same one.
 */
#ifndef SLUICE_MAPS_H
#define SLUICE_MAPS_H

#include "sluice_kernel.h"
#include "sluice_abi.h"

struct {
	COUNT(BPF_MAP_TYPE_ARRAY, type);
	COUNT(BPF_F_MMAPABLE, map_flags);
	COUNT(4096, max_entries);
	VALUE(__u32, key);
	VALUE(struct sluice_ctl, value);
} sluice_ctl SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_ARRAY, type);
	COUNT(BPF_F_MMAPABLE, map_flags);
	COUNT(4096, max_entries);
	VALUE(__u32, key);
	VALUE(struct sluice_stat, value);
} sluice_stat SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_ARRAY, type);
	COUNT(BPF_F_MMAPABLE, map_flags);
	COUNT(1, max_entries);
	VALUE(__u32, key);
	VALUE(struct sluice_cfg, value);
} sluice_cfg SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_ARRAY, type);
	COUNT(BPF_F_MMAPABLE, map_flags);
	COUNT(1, max_entries);
	VALUE(__u32, key);
	VALUE(struct sluice_counters, value);
} sluice_counters SEC(".maps");

/* Rows nobody owns. */
struct {
	COUNT(BPF_MAP_TYPE_QUEUE, type);
	COUNT(4096, max_entries);
	VALUE(__u32, value);
} sluice_free SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_RINGBUF, type);
	COUNT(262144, max_entries);
} sluice_events SEC(".maps");

/* By cookie. Filled for one pass over the sockets, and emptied after it. */
struct {
	COUNT(BPF_MAP_TYPE_HASH, type);
	COUNT(4096, max_entries);
	VALUE(__u64, key);
	VALUE(struct sluice_wanted, value);
} sluice_wanted SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_SK_STORAGE, type);
	COUNT(BPF_F_NO_PREALLOC, map_flags);
	VALUE(int, key);
	VALUE(struct sluice_sock, value);
} sluice_socks SEC(".maps");

#define COUNT_UP(field)                                                                  \
	do {                                                                                 \
		__u32 zero_ = 0;                                                                 \
		struct sluice_counters *counters_ = bpf_map_lookup_elem(&sluice_counters, &zero_); \
		if (counters_)                                                                   \
			__sync_fetch_and_add(&counters_->field, 1);                                  \
	} while (0)

INLINE struct sluice_cfg *config(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&sluice_cfg, &zero);
}

INLINE void copy_address(__u8 *to, const struct in6_addr *from)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < 4; i++) {
		__u32 part = from->in6_u.u6_addr32[i];

		__builtin_memcpy(to + 4 * i, &part, 4);
	}
}

INLINE void map_ipv4(__u8 *to, __u32 address)
{
	__builtin_memset(to, 0, 10);
	to[10] = 0xff;
	to[11] = 0xff;
	__builtin_memcpy(to + 12, &address, 4);
}

/*
 * Orders what stands before it and what stands after it for every processor. An atomic operation that returns a value
 * orders both sides in the BPF memory model, whatever word it is on; where the processor keeps loads in order and stores
 * in order, as x86 does, the compiler alone has to be told. Which it is, is known by a register that x86 alone has when
 * a program is loaded, and the kernel then takes the other branch out: every ACK runs through four of these.
 */
INLINE void fence(__u64 *word)
{
	barrier();
	if (!field_exists(((struct pt_regs *)0)->orig_ax)) {
		/* Used, or the compiler would leave the value away and the order with it. */
		__u64 seen = __sync_fetch_and_add(word, 0);

		__asm__ volatile("" : : "r"(seen) : "memory");
	}
	barrier();
}

/*
 * Fills anything that has the fields local, remote, local_port, remote_port, uid and cookie. A kernel without IPv6 has no
 * addresses of it: the branch that reads them is gone before its program is looked at.
 */
#define IDENTIFY(to, sk_)                                                                \
	do {                                                                                 \
		struct sock *identify_ = (struct sock *)(sk_);                                   \
		if (field_exists(identify_->__sk_common.skc_v6_daddr) &&                         \
		    identify_->__sk_common.skc_family == AF_INET6) {                             \
			copy_address((to)->local, &identify_->__sk_common.skc_v6_rcv_saddr);         \
			copy_address((to)->remote, &identify_->__sk_common.skc_v6_daddr);            \
		} else {                                                                         \
			map_ipv4((to)->local, identify_->__sk_common.skc_rcv_saddr);                 \
			map_ipv4((to)->remote, identify_->__sk_common.skc_daddr);                    \
		}                                                                                \
		(to)->local_port = identify_->__sk_common.skc_num;                               \
		(to)->remote_port = ntohs(identify_->__sk_common.skc_dport);                     \
		(to)->uid = identify_->sk_uid.val;                                               \
		(to)->cookie = identify_->__sk_common.skc_cookie.counter;                        \
	} while (0)

INLINE __u32 netns_of(struct tcp_sock *tp)
{
	struct net *net = ((struct sock *)tp)->__sk_common.skc_net.net;

	return net ? net->ns.inum : 0;
}

INLINE void tell(struct tcp_sock *tp, __u32 kind, __u32 index, __u32 gen)
{
	struct sluice_event event = {};

	event.kind = kind;
	event.index = index;
	event.gen = gen;
	event.time = bpf_ktime_get_ns();
	IDENTIFY(&event, tp);
	event.netns = netns_of(tp);
	if (bpf_ringbuf_output(&sluice_events, &event, sizeof(event), 0))
		COUNT_UP(events_lost);
}

/* Takes a free row for a socket; returns its generation, or 0 if none is free. */
INLINE __u32 take_row(struct tcp_sock *tp, __u32 *index, __u64 rate, __u64 now)
{
	struct sluice_stat *row;
	__u32 slot = 0, gen;

	if (bpf_map_pop_elem(&sluice_free, &slot))
		return 0;
	row = bpf_map_lookup_elem(&sluice_stat, &slot);
	if (!row)
		return 0;
	WRITE_ONCE(row->seq, row->seq | 1);
	fence(&row->fence);
	gen = row->gen + 1;
	if (!gen)
		gen = 1;
	row->gen = gen;
	row->acked = tp->bytes_acked;
	row->queued = tp->write_seq - tp->snd_una;
	row->snd_una = tp->snd_una;
	row->rcv_nxt = tp->rcv_nxt;
	row->mss = tp->mss_cache;
	row->delivery_rate = 0;
	row->pacing_rate = rate;
	row->last_ns = now;
	row->srtt_us = tp->srtt_us >> 3;
	row->rtt_min_us = 0;
	row->retransmitted = tp->total_retrans;
	row->lost = tp->lost;
	row->delivered = tp->delivered;
	row->cwnd = tp->snd_cwnd;
	IDENTIFY(row, tp);
	row->netns = netns_of(tp);
	row->told = 0;
	__builtin_memset(&row->surplus, 0, sizeof(row->surplus));
	row->surplus.looked = now;
	row->surplus.lost = tp->lost;
	row->flags = SLUICE_STAT_LIVE;
	fence(&row->fence);
	WRITE_ONCE(row->seq, row->seq + 1);
	*index = slot;
	return gen;
}

/*
 * Gives a row back, unless it has another owner by now. The daemon takes rows of silent flows away at the same time:
 * whoever moves the generation on gives the row back, and nobody else.
 */
INLINE bool free_row(__u32 index, __u32 gen)
{
	struct sluice_stat *row = bpf_map_lookup_elem(&sluice_stat, &index);
	__u32 next = gen + 1;

	if (!next)
		next = 1;
	if (!row || __sync_val_compare_and_swap(&row->gen, gen, next) != gen)
		return 0;
	row->flags = 0;
	bpf_map_push_elem(&sluice_free, &index, 0);
	return 1;
}

/* Least round-trip time; the kernel keeps ~0 before the first sample. */
INLINE __u32 least_rtt(struct tcp_sock *tp)
{
	__u32 rtt = tp->rtt_min.s[0].v;

	return rtt == ~0U ? 0 : rtt;
}

INLINE void write_row(struct sluice_stat *row, struct tcp_sock *tp, __u64 delivery, __u64 pacing, __u64 now, __u32 flags)
{
	WRITE_ONCE(row->seq, row->seq | 1);
	fence(&row->fence);
	row->acked = tp->bytes_acked;
	row->queued = tp->write_seq - tp->snd_una;
	row->snd_una = tp->snd_una;
	row->rcv_nxt = tp->rcv_nxt;
	row->mss = tp->mss_cache;
	if (delivery)
		row->delivery_rate = delivery;
	row->pacing_rate = pacing;
	row->last_ns = now;
	row->srtt_us = tp->srtt_us >> 3;
	row->rtt_min_us = least_rtt(tp);
	row->retransmitted = tp->total_retrans;
	row->lost = tp->lost;
	row->delivered = tp->delivered;
	row->cwnd = tp->snd_cwnd;
	row->flags = SLUICE_STAT_LIVE | flags;
	fence(&row->fence);
	WRITE_ONCE(row->seq, row->seq + 1);
}

enum order_state { ORDER_NONE, ORDER_GOOD, ORDER_RELEASE };

struct order {
	__u64 rate;
	__u64 expiry;
	/* What the flow may send in all; 0: the rate. */
	__u64 link;
	/* Of that, beyond the rate, only what is idle. */
	__u32 yields;
};

/* Reads the order of a row's owner. Torn, stale and impossible orders are void: the last good one stands. */
INLINE enum order_state read_order(struct sluice_cfg *cfg, __u32 index, __u32 gen, __u64 now, struct order *order)
{
	struct sluice_ctl *ctl = bpf_map_lookup_elem(&sluice_ctl, &index);
	__u64 new_rate, new_expiry, new_link;
	__u32 before, flags;

	if (!ctl)
		return ORDER_NONE;
	before = READ_ONCE(ctl->gen);
	fence(&ctl->fence);
	new_expiry = READ_ONCE(ctl->expiry);
	new_rate = READ_ONCE(ctl->rate);
	new_link = READ_ONCE(ctl->link);
	flags = READ_ONCE(ctl->flags);
	fence(&ctl->fence);
	if (before != gen || READ_ONCE(ctl->gen) != gen)
		return ORDER_NONE;
	if (flags & SLUICE_CTL_RELEASE)
		return ORDER_RELEASE;
	if (new_expiry > now + cfg->max_expiry)
		return ORDER_NONE;
	order->rate = new_rate;
	order->expiry = new_expiry;
	order->link = flags & SLUICE_CTL_SURPLUS ? new_link : 0;
	order->yields = flags & SLUICE_CTL_YIELDS ? 1 : 0;
	return ORDER_GOOD;
}

/* Tells once when the bytes of a round have arrived, so that the daemon need not look for it all the time. */
INLINE void tell_mark(struct tcp_sock *tp, struct sluice_stat *row, __u32 index, __u32 gen)
{
	struct sluice_ctl *ctl = bpf_map_lookup_elem(&sluice_ctl, &index);
	__u64 mark = ctl ? READ_ONCE(ctl->mark) : 0;

	if (!mark || tp->bytes_acked < mark || row->told == (__u32)mark)
		return;
	row->told = mark;
	tell(tp, SLUICE_EVENT_FINISHED, index, gen);
}

INLINE __u64 clamp_rate(struct sluice_cfg *cfg, __u64 rate)
{
	if (rate > cfg->ceiling)
		rate = cfg->ceiling;
	if (rate < cfg->floor)
		rate = cfg->floor;
	return rate;
}

/* Compares two names of 16 bytes that are padded with zeros. */
INLINE bool same_name(const char *a, const char *b)
{
	__u64 x[2], y[2];

	__builtin_memcpy(x, a, 16);
	__builtin_memcpy(y, b, 16);
	return x[0] == y[0] && x[1] == y[1];
}

/* The control that every kernel has. Made by stores, since a constant would need a map of its own. */
INLINE void name_reno(char *name)
{
	__builtin_memset(name, 0, SLUICE_CC_NAME_LEN);
	name[0] = 'r';
	name[1] = 'e';
	name[2] = 'n';
	name[3] = 'o';
}

/* Any of our own congestion controls, whatever instance or alternate name. */
INLINE bool is_sluice(const char *name)
{
	return name[0] == 's' && name[1] == 'l' && name[2] == 'u' && name[3] == 'i' && name[4] == 'c' && name[5] == 'e';
}

#endif
