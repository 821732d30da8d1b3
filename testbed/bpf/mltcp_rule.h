/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The published rule of MLTCP, in integers, without anything of a kernel: a window grows by F(bytes_ratio) instead of by
 * one a round trip, F(r) = 1.75 r + 0.25, where bytes_ratio is what part of an iteration's bytes has been sent. Flows
 * that are nearer to the end of their round grow faster, so that jobs drift apart. What an iteration has, and where it
 * begins, is learned from pauses between acknowledgements.
 */
#ifndef MLTCP_RULE_H
#define MLTCP_RULE_H

/* Fixed point of ratios and of growth. */
#define MLTCP_ONE 1024
#define MLTCP_SLOPE (MLTCP_ONE * 7 / 4)
#define MLTCP_INTERCEPT (MLTCP_ONE / 4)
/* No pause between iterations is shorter than this: senders that wait for others pause for less. */
#define MLTCP_SHORTEST_US 10000

struct mltcp {
	/* Bytes that were acknowledged when this iteration began, and are now. */
	__u64 began;
	__u64 acked;
	/* Bytes of an iteration, as far as they are known; 0: not yet. */
	__u64 total;
	/* When the last acknowledgement came; 0: none yet. */
	__u64 heard_us;
	/* The pause between iterations, as far as it is known. */
	__u64 pause_us;
	/* Growth that did not make a whole segment, in segments × window × MLTCP_ONE. */
	__u64 credit;
	/* Nothing was outstanding or waiting after the last acknowledgement. */
	__u64 idle;
};

/* Growth of the window a round trip in segments, × MLTCP_ONE; that of Reno until one iteration is known. */
static inline __attribute__((always_inline)) __u32 mltcp_growth(const struct mltcp *s)
{
	__u64 sent = s->acked - s->began;

	if (!s->total)
		return MLTCP_ONE;
	if (sent >= s->total)
		return MLTCP_SLOPE + MLTCP_INTERCEPT;
	return (__u32)(sent * MLTCP_SLOPE / s->total) + MLTCP_INTERCEPT;
}

/* By how many segments a window of `cwnd` grows in congestion avoidance, when so many were acknowledged. */
static inline __attribute__((always_inline)) __u32 mltcp_more(struct mltcp *s, __u32 cwnd, __u32 acked)
{
	__u64 whole = (__u64)cwnd * MLTCP_ONE, more;

	if (!whole)
		return 1;
	/* Left from a larger window. */
	if (s->credit >= whole)
		s->credit = whole - 1;
	s->credit += (__u64)acked * mltcp_growth(s);
	more = s->credit / whole;
	s->credit -= more * whole;
	return (__u32)more;
}

/* An acknowledgement, the first of an iteration if there was a long pause before it in which nothing was left to send. */
static inline __attribute__((always_inline)) void mltcp_heard(struct mltcp *s, __u64 acked, __u64 now_us, __u64 srtt_us, bool idle)
{
	__u64 gap = now_us - s->heard_us, least = 4 * srtt_us, bytes;

	if (least < MLTCP_SHORTEST_US)
		least = MLTCP_SHORTEST_US;
	/* Who waits for others within a round pauses too, but not as long as who computes. */
	if (least < s->pause_us / 2)
		least = s->pause_us / 2;
	if (s->heard_us && s->idle && gap > least) {
		bytes = s->acked - s->began;
		/* Up at once and down slowly: half an iteration that was taken for a whole one does little harm. */
		if (bytes >= s->total)
			s->total = bytes;
		else
			s->total -= (s->total - bytes) / 4;
		if (gap >= s->pause_us)
			s->pause_us = gap;
		else
			s->pause_us -= (s->pause_us - gap) / 8;
		s->began = s->acked;
	}
	s->acked = acked;
	s->heard_us = now_us;
	s->idle = idle;
}

#endif
