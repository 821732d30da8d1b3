// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The congestion control "mltcp": Reno that grows by the rule of MLTCP, a baseline of the testbed. One program per
 * member of struct tcp_congestion_ops; fast recovery is the kernel's own.
 */
#include "sluice_kernel.h"
#include "mltcp_rule.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MIN_CWND 2
/* What the kernel takes for "no threshold yet". */
#define INFINITE_SSTHRESH 0x7fffffff

/* Fields that only this program touches. */
struct tcp_sock___mltcp {
	__u32 max_packets_out;
	__u32 prior_cwnd;
	__u8 is_cwnd_limited : 1;
} KERNEL;

enum field { BYTE_OFFSET = 0, BYTE_SIZE = 1, LSHIFT_U64 = 4, RSHIFT_U64 = 5 };

/* A field of some bits: which byte it is in, and where, differs from kernel to kernel. */
INLINE bool cwnd_limited(const struct tcp_sock___mltcp *tp)
{
	const void *at = (const void *)tp + __builtin_preserve_field_info(tp->is_cwnd_limited, BYTE_OFFSET);
	__u64 value = 0;

	barrier();
	__asm__ volatile("" : "+r"(at));
	switch (__builtin_preserve_field_info(tp->is_cwnd_limited, BYTE_SIZE)) {
	case 1:
		value = *(const __u8 *)at;
		break;
	case 2:
		value = *(const __u16 *)at;
		break;
	case 4:
		value = *(const __u32 *)at;
		break;
	case 8:
		value = *(const __u64 *)at;
		break;
	}
	value <<= __builtin_preserve_field_info(tp->is_cwnd_limited, LSHIFT_U64);
	value >>= __builtin_preserve_field_info(tp->is_cwnd_limited, RSHIFT_U64);
	return value;
}

INLINE struct mltcp *state_of(struct tcp_sock *tp)
{
	_Static_assert(sizeof(struct mltcp) <= 13 * sizeof(__u64), "a congestion control has no more room in a socket");
	return (struct mltcp *)tp->inet_conn.icsk_ca_priv;
}

SEC("fentry/init")
int init(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct mltcp *s = state_of(tp);

	s->began = tp->bytes_acked;
	s->acked = s->began;
	s->total = 0;
	s->heard_us = 0;
	s->pause_us = 0;
	s->credit = 0;
	s->idle = 0;
	tp->snd_ssthresh = INFINITE_SSTHRESH;
	return 0;
}

SEC("fentry/pkts_acked")
int pkts_acked(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	mltcp_heard(state_of(tp), tp->bytes_acked, tp->tcp_mstamp, tp->srtt_us >> 3, tp->write_seq == tp->snd_una);
	return 0;
}

SEC("fentry/cong_avoid")
int cong_avoid(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	const struct tcp_sock___mltcp *more = (const void *)tp;
	__u32 acked = ctx[2], cwnd = tp->snd_cwnd, clamp = tp->snd_cwnd_clamp, threshold = tp->snd_ssthresh, room;

	/* As the kernel's own: a window that nobody fills does not grow, up to twice its use in slow start. */
	if (!cwnd_limited(more) && (cwnd >= threshold || cwnd >= 2 * more->max_packets_out))
		return 0;
	if (cwnd < threshold) {
		room = threshold - cwnd;
		if (room > acked)
			room = acked;
		cwnd += room;
		acked -= room;
	}
	if (acked)
		cwnd += mltcp_more(state_of(tp), cwnd, acked);
	tp->snd_cwnd = cwnd < clamp ? cwnd : clamp;
	return 0;
}

SEC("fentry/ssthresh")
int ssthresh(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	return tp->snd_cwnd / 2 > MIN_CWND ? tp->snd_cwnd / 2 : MIN_CWND;
}

SEC("fentry/undo_cwnd")
int undo_cwnd(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	const struct tcp_sock___mltcp *more = (const void *)tp;

	return tp->snd_cwnd > more->prior_cwnd ? tp->snd_cwnd : more->prior_cwnd;
}
