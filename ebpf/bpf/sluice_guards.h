/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What keeps a flow and its path from harm when an order is wrong or nobody renews it: the hand-over to ordinary
 * congestion control, the loss guard, the squeeze of a growing queue, the in-program Reno mode, and the state of one
 * flow that they share. Following an order is sluice_cc.bpf.c's.
 */
#ifndef SLUICE_GUARDS_H
#define SLUICE_GUARDS_H

#include "sluice_maps.h"

/* Bounds of the private area are those of icsk_ca_priv: 104 bytes. */
struct flow {
	__u32 index;
	/* Generation of the row; 0: it has none. */
	__u32 gen;
	__u32 flags;
	/* How often the present squeeze has cut the window. */
	__u32 cuts;
	/* The last good order. */
	__u64 rate;
	__u64 expiry;
	/* Loss guard: bytes/s, 0 when it sleeps. */
	__u64 cap;
	__u64 cap_ns;
	__u64 trip_ns;
	/* Loss window. */
	__u64 win_ns;
	__u32 win_lost;
	__u32 win_delivered;
	/*
	 * Microseconds: until when no squeeze begins; in the in-program mode, until when losses are answered. During a
	 * squeeze: KiB/s delivered when it began.
	 */
	__u32 mark_us;
	/* Delivery window: its start in microseconds, and what had been acknowledged (bytes), delivered and sent then. */
	__u32 dlv_us;
	__u32 dlv_acked;
	__u32 dlv_sent;
	/* KiB/s sent in the window before. */
	__u32 sent_before;
	/* Last sign of life, in microseconds. */
	__u32 last_us;
	/* Segments that a squeeze allows in flight, 0 without one. */
	__u32 frozen;
	/* Delivered at the start of the delivery window; in-program mode: acknowledged towards the next increase. */
	__u32 segments;
};
_Static_assert(sizeof(struct flow) <= 104, "struct flow must fit into icsk_ca_priv");

#define FLOW_HANDING 1
#define FLOW_RENO 2
#define FLOW_PACING_OURS 4
/* Everything written was acknowledged: silence from here on is the application's, not the pacing's. */
#define FLOW_EMPTY 8
/* The loss window has not begun: what was sent before the cap is still under way. */
#define FLOW_SETTLING 16
/* The loss window before was a bad one. */
#define FLOW_LOSING 32

#define MIN_CWND 4U
#define MILLISECOND 1000000ULL
/* Eight times the first ban is the longest. As a mask it keeps the shift in bounds, also for the verifier. */
#define MAX_BAN_DOUBLINGS 3
/* The loss guard's cap does not rise for this long. */
#define CAP_HOLD (100 * MILLISECOND)
/* Bytes/s, 1 Mbit/s: under a lower cap the segments by which a flow shows what its path carries take seconds. */
#define LEAST_CAP 125000ULL

INLINE struct flow *flow_of(struct tcp_sock *tp)
{
	return (struct flow *)tp->inet_conn.icsk_ca_priv;
}

/* Never more than was sent: in the middle of a recovery the kernel's counts may not add up for a moment. */
INLINE __u32 in_flight(struct tcp_sock *tp)
{
	__u32 left_out = tp->sacked_out + tp->lost_out;

	return (left_out < tp->packets_out ? tp->packets_out - left_out : 0) + tp->retrans_out;
}

/*
 * The window that the next congestion control begins with: what is in flight and the three segments by which the kernel itself
 * lets a window exceed that (`tcp_moderate_cwnd`), or ten, as a connection begins with, where nothing is under way. Many flows
 * are given back in the same slot: more for each of them would overrun the queue that they share.
 */
INLINE __u32 first_window(struct tcp_sock *tp)
{
	__u32 flying = in_flight(tp);

	return flying ? flying + 3 : 10;
}

INLINE __u64 max_u64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* The guards cap no lower than this: where so many flows share a link that each is ordered less, at its order. */
INLINE __u64 least_cap(struct sluice_cfg *cfg, __u64 order)
{
	__u64 least = cfg->ceiling / 10;

	if (least > LEAST_CAP)
		least = LEAST_CAP;
	if (least < cfg->floor)
		least = cfg->floor;
	return least < order ? least : order;
}

INLINE void set_pacing(struct tcp_sock *tp, __u64 rate)
{
	struct sock *sk = (struct sock *)tp;

	/* An application's own ceiling stands. */
	if (rate > sk->sk_max_pacing_rate)
		rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate;
}

/*
 * Segments for late acknowledgements: what `rate` moves in ten milliseconds, 64 at most. A fixed 64 would let the kernel
 * send a slow flow's next 64 KiB in one burst and then be silent: on paths of a few microseconds it adds up to
 * gso_max_size to every burst, whatever tcp_tso_rtt_log says.
 */
INLINE __u32 spare(struct tcp_sock *tp, __u64 rate)
{
	__u32 mss = tp->mss_cache;
	__u64 room = rate / 100 / (mss ? mss : 536);

	return room > 64 ? 64 : room < MIN_CWND ? MIN_CWND : room;
}

/* Segments that keep `rate` going, twice over, and some to spare. */
INLINE __u32 window(struct tcp_sock *tp, struct flow *flow, __u64 rate)
{
	__u64 rtt = tp->srtt_us >> 3, cwnd;
	__u32 mss = tp->mss_cache;

	if (rtt > 1000000)
		rtt = 1000000;
	if (!mss)
		mss = 536;
	cwnd = rate * 2 * rtt / 1000000 / mss + spare(tp, rate);
	if (flow->frozen && cwnd > flow->frozen)
		cwnd = flow->frozen;
	if (cwnd > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp;
	if (cwnd < MIN_CWND)
		cwnd = MIN_CWND;
	return cwnd;
}

/* Segments that the last order kept on the path without a queue, or what is in flight if that is more. */
INLINE __u32 carried(struct tcp_sock *tp, struct flow *flow)
{
	__u64 rate = flow->cap && flow->cap < flow->rate ? flow->cap : flow->rate, segments;
	__u32 mss = tp->mss_cache, flying = in_flight(tp), rtt = least_rtt(tp);

	if (rtt > 1000000)
		rtt = 1000000;
	segments = rate * rtt / 1000000 / (mss ? mss : 536);
	if (segments > 0x7fffffff)
		segments = 0x7fffffff;
	if (segments < flying)
		segments = flying;
	return segments < MIN_CWND ? MIN_CWND : segments;
}

INLINE long change_to(struct tcp_sock *tp, const char *name)
{
	char copy[SLUICE_CC_NAME_LEN];

	if (!name[0] || is_sluice(name))
		return -1;
	__builtin_memcpy(copy, name, sizeof(copy));
	return bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, copy, sizeof(copy));
}

/*
 * Keeps a socket plain whose order lost too much. An order that stays wrong is tried half as often with every further
 * time; after as long without one as the longest ban it is as at first.
 */
INLINE void ban(struct sluice_sock *own, struct sluice_cfg *cfg, __u64 now)
{
	if (now - own->banned_until > cfg->loss_ban << MAX_BAN_DOUBLINGS)
		own->bans = 0;
	own->banned_until = now + (cfg->loss_ban << (own->bans & MAX_BAN_DOUBLINGS));
	if (own->bans < MAX_BAN_DOUBLINGS)
		own->bans++;
}

/*
 * Gives the live socket to ordinary congestion control. Our release program runs inside the call and frees the row, so
 * nothing of `flow` may be used afterwards unless every choice was refused.
 */
INLINE void hand_over(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, __u32 why)
{
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, tp, NULL, 0);
	char reno[SLUICE_CC_NAME_LEN];
	__u32 index = flow->index, gen = flow->gen;
	__u64 now = bpf_ktime_get_ns();

	if (flow->flags & FLOW_RENO)
		return;
	name_reno(reno);
	if (own && cfg && why == SLUICE_EVENT_LOSS_GUARD)
		ban(own, cfg, now);
	flow->flags |= FLOW_HANDING;
	if ((!cfg || change_to(tp, cfg->release_to)) && (!own || change_to(tp, own->earlier)) &&
	    (!cfg || change_to(tp, cfg->system_default)) &&
	    bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno))) {
		struct sluice_stat *row = bpf_map_lookup_elem(&sluice_stat, &index);
		struct sock *sk = (struct sock *)tp;

		/* Nobody takes it: keep it alive here, unpaced, with a window that answers loss. */
		flow->flags = (flow->flags & ~FLOW_HANDING) | FLOW_RENO;
		flow->mark_us = now / 1000;
		flow->segments = 0;
		sk->sk_pacing_rate = ~0UL;
		if (flow->flags & FLOW_PACING_OURS)
			sk->sk_pacing_status = SK_PACING_NONE;
		tp->snd_ssthresh = carried(tp, flow);
		tp->snd_cwnd = first_window(tp);
		if (row && row->gen == gen)
			row->flags |= SLUICE_STAT_RENO;
		COUNT_UP(refused);
	}
	if (gen)
		tell(tp, why, index, gen);
}

/* In-program mode: slow start, one segment per round trip, half after a loss. */
INLINE void reno(struct tcp_sock *tp, struct flow *flow, __u32 losses, __u32 acked, __u64 now)
{
	__u32 cwnd = tp->snd_cwnd;

	/* An `undo_cwnd` that the kernel skipped counts as 0. */
	if (cwnd < MIN_CWND)
		tp->snd_cwnd = cwnd = MIN_CWND;
	if (losses && (__s32)((__u32)(now / 1000) - flow->mark_us) > 0) {
		cwnd = cwnd / 2 > MIN_CWND ? cwnd / 2 : MIN_CWND;
		tp->snd_ssthresh = cwnd;
		tp->snd_cwnd = cwnd;
		flow->segments = 0;
		flow->mark_us = now / 1000 + (tp->srtt_us >> 3);
	} else if (cwnd < tp->snd_ssthresh) {
		tp->snd_cwnd = cwnd + acked;
	} else {
		flow->segments += acked;
		if (flow->segments >= cwnd) {
			flow->segments -= cwnd;
			tp->snd_cwnd = cwnd + 1;
		}
	}
	((struct sock *)tp)->sk_pacing_rate = ~0UL;
}

/*
 * What the guards saw of the path holds whatever is ordered, or an order that changes all the time would never be
 * guarded. Only an order below the cap needs none: it is less than the path was seen to carry.
 */
INLINE void new_order(struct flow *flow, __u64 before, __u64 order)
{
	if (order != before && flow->cap && order <= flow->cap)
		flow->cap = 0;
}

/*
 * Ordinary TCP never sends less than two segments in a round trip: a flow that is ordered less than that loads its path
 * less as it is.
 */
INLINE bool below_plain(struct tcp_sock *tp, __u64 order)
{
	return order * (tp->srtt_us >> 3) < 2000000ULL * tp->mss_cache;
}

/*
 * Counts losses in windows of one round trip; two bad ones in a row trip the guard. (A queue that another flow
 * overfills loses for one round trip, an order that is too high goes on losing.) True if it trips for the second time
 * in short order, less than four fifths of the order arrive, and ordinary TCP could send less than that.
 */
INLINE bool loss_guard(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, __u64 now, __u64 order)
{
	__u64 least = max_u64((__u64)(tp->srtt_us >> 3) * 1000, cfg->loss_window / 2), elapsed, rate, kept, pacing;
	__u32 lost = tp->lost - flow->win_lost, delivered = tp->delivered - flow->win_delivered;

	if ((__s64)(now - flow->win_ns) < 0)
		return 0;
	elapsed = now - flow->win_ns;
	if (flow->flags & FLOW_SETTLING) {
		/* What was sent before the cap has been lost or has arrived by now: count from here. */
		flow->flags &= ~FLOW_SETTLING;
	} else {
		/* A window of few segments says nothing: one random loss in seven is not a full queue. */
		if (elapsed < least || lost + delivered < 32)
			return 0;
		rate = (__u64)delivered * tp->mss_cache * 1000000 / (elapsed / 1000 + 1);
		if (lost < 4 || (__u64)lost * 1000 <= (__u64)delivered * cfg->loss_permille) {
			flow->flags &= ~FLOW_LOSING;
			if (flow->cap && now - flow->cap_ns > CAP_HOLD) {
				/* Up only as far as the path is seen to carry it, or when all this is long ago. */
				if (rate * 10 >= flow->cap * 9)
					flow->cap += flow->cap / 4;
				if (flow->cap >= order || now - flow->cap_ns > cfg->loss_retrip)
					flow->cap = 0;
			}
		} else if (!(flow->flags & FLOW_LOSING)) {
			flow->flags |= FLOW_LOSING;
		} else {
			/* Delivery measured while holes are being filled is too low: what was not lost is the other measure. */
			pacing = flow->cap ? flow->cap : order;
			kept = max_u64(rate, pacing * delivered / (delivered + lost));
			/*
			 * The path carries nearly all of the order: the queue is full of somebody else's segments, and plain
			 * flows would only fill it more.
			 */
			if (flow->trip_ns && now - flow->trip_ns < cfg->loss_retrip && kept * 5 < order * 4 &&
			    !below_plain(tp, order))
				return 1;
			flow->trip_ns = now;
			flow->cap_ns = now;
			flow->cap = max_u64(kept, least_cap(cfg, order));
			flow->flags = (flow->flags & ~FLOW_LOSING) | FLOW_SETTLING;
			flow->win_ns = now + 2 * least;
			COUNT_UP(loss_trips);
			return 0;
		}
	}
	flow->win_ns = now;
	flow->win_lost = tp->lost;
	flow->win_delivered = tp->delivered;
	return 0;
}

/* What the path did until now was not the order's doing: both guards look from here on. */
INLINE void guards_anew(struct tcp_sock *tp, struct flow *flow, __u64 now)
{
	flow->flags &= ~(FLOW_LOSING | FLOW_SETTLING);
	flow->win_ns = now;
	flow->win_lost = tp->lost;
	flow->win_delivered = tp->delivered;
	if (flow->frozen)
		flow->mark_us = now / 1000;
	flow->frozen = 0;
}

/*
 * Where an order is more than the path carries, its queue grows before anything is lost. A delivery window with a
 * longer round trip, in which less than five eighths of what was sent in the window before arrived, cuts the window to
 * half of what is in flight, and again with every further one, until the queue is gone. If that takes two, and none
 * brought five eighths of the rate, the queue was ours: pacing is capped at the most that arrived, though at no less
 * than three quarters of what it was, for a processor that was busy elsewhere looks alike. A queue that three cuts do
 * not empty is somebody else's: then the flow is left alone for a second, and the loss guard is all there is.
 *
 * Of a flow that is capped already it is known that its path carries less than its order: seven eighths count there in
 * place of five, and five eighths in place of three quarters. With the same measures as at first a cap of three quarters
 * would stay for good half above a path that carries half of the order, and be told only by what it loses.
 */
INLINE void squeeze(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, __u64 now, __u64 pacing,
		    __u64 delivered, long rtt_us)
{
	__u32 least = least_rtt(tp), us = now / 1000, smallest = spare(tp, pacing) / 2;
	__u64 enough = flow->cap ? 7 : 5, kept = flow->cap ? pacing / 8 * 5 : pacing / 4 * 3;
	bool grows = rtt_us > 0 && (__u64)rtt_us > (__u64)least + (least > 4000 ? least : 4000);

	if (smallest < MIN_CWND)
		smallest = MIN_CWND;
	if (flow->frozen && delivered > flow->mark_us)
		flow->mark_us = delivered;
	if (!grows) {
		if (!flow->frozen)
			return;
		flow->frozen = 0;
		if (flow->cuts >= 2 && (__u64)flow->mark_us * 1024 * 8 < pacing * enough) {
			flow->cap = max_u64(max_u64((__u64)flow->mark_us * 1024, kept), least_cap(cfg, pacing));
			flow->cap_ns = now;
		}
		flow->mark_us = us;
		return;
	}
	if (!flow->frozen) {
		if (delivered * 8 >= (__u64)flow->sent_before * enough || (__s32)(us - flow->mark_us) < 0)
			return;
		flow->frozen = in_flight(tp);
		flow->cuts = 0;
		/* While the window is cut: the most that arrived. */
		flow->mark_us = delivered;
		COUNT_UP(squeezes);
	}
	if (flow->cuts >= 3) {
		flow->frozen = 0;
		flow->mark_us = us + 1000000;
		return;
	}
	flow->cuts++;
	flow->frozen = flow->frozen / 2 > smallest ? flow->frozen / 2 : smallest;
}

INLINE void open_window(struct tcp_sock *tp, struct flow *flow, __u32 us)
{
	flow->dlv_us = us;
	flow->dlv_acked = tp->bytes_acked;
	flow->segments = tp->delivered;
	flow->dlv_sent = tp->data_segs_out;
}

/*
 * Ends the delivery window if it has lasted a round trip and eight milliseconds. Returns the bytes/s acknowledged in
 * it, 0 while it lasts.
 */
INLINE __u64 delivery_window(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, __u64 now,
			     __u64 pacing, bool guarded, const struct rate_sample *rs)
{
	__u32 us = now / 1000, elapsed = us - flow->dlv_us;
	__u64 per_segment, acked;

	if (elapsed < 8000 || elapsed < tp->srtt_us >> 3)
		return 0;
	acked = (__u64)((__u32)tp->bytes_acked - flow->dlv_acked) * 1000000 / elapsed;
	per_segment = (__u64)tp->mss_cache * 1000000 / elapsed;
	/* What arrived out of order has arrived too. */
	if (guarded && !rs->is_app_limited && !rs->is_ack_delayed)
		squeeze(tp, flow, cfg, now, pacing, (tp->delivered - flow->segments) * per_segment / 1024, rs->rtt_us);
	flow->sent_before = (tp->data_segs_out - flow->dlv_sent) * per_segment / 1024;
	open_window(tp, flow, us);
	return acked;
}

#endif
