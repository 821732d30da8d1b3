// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The congestion control "sluice": paces each socket at the rate its order says. It decides nothing. It guards the
 * flow against a daemon that is wrong, late or dead: floor, ceiling, expiry of each order, loss guard.
 *
 * One program per member of struct tcp_congestion_ops, in sections that aya-obj accepts; the loader ignores the part
 * before the slash. Everything is inlined, so that no function information has to be loaded.
 */
#include "sluice_maps.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

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
/* The loss guard's cap does not rise for this long. */
#define CAP_HOLD (200 * MILLISECOND)

INLINE struct flow *flow_of(struct tcp_sock *tp)
{
	return (struct flow *)tp->inet_conn.icsk_ca_priv;
}

INLINE __u32 in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

INLINE __u64 max_u64(__u64 a, __u64 b)
{
	return a > b ? a : b;
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
 * Segments that keep `rate` going, twice over, and beside them what it moves in ten milliseconds, 64 at most, for late
 * acknowledgements. A fixed 64 would let the kernel send a slow flow's next 64 KiB in one burst and then be silent: on
 * paths of a few microseconds it adds up to gso_max_size to every burst, whatever tcp_tso_rtt_log says.
 */
INLINE __u32 window(struct tcp_sock *tp, struct flow *flow, __u64 rate)
{
	__u64 rtt = tp->srtt_us >> 3, cwnd, room;
	__u32 mss = tp->mss_cache;

	if (rtt > 1000000)
		rtt = 1000000;
	if (!mss)
		mss = 536;
	room = rate / 100 / mss;
	if (room > 64)
		room = 64;
	if (room < MIN_CWND)
		room = MIN_CWND;
	cwnd = rate * 2 * rtt / 1000000 / mss + room;
	if (flow->frozen && cwnd > flow->frozen)
		cwnd = flow->frozen;
	if (cwnd > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp;
	if (cwnd < MIN_CWND)
		cwnd = MIN_CWND;
	return cwnd;
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
		own->banned_until = now + cfg->loss_ban;
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
		tp->snd_cwnd = in_flight(tp) + 10;
		if (row && row->gen == gen)
			row->flags |= SLUICE_STAT_RENO;
		COUNT_UP(refused);
	}
	tell(tp, why, index, gen);
}

/* In-program mode: slow start, one segment per round trip, half after a loss. */
INLINE void reno(struct tcp_sock *tp, struct flow *flow, __u32 losses, __u32 acked, __u64 now)
{
	__u32 cwnd = tp->snd_cwnd;

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
 * Counts losses in windows of one round trip; two bad ones in a row trip the guard. (A queue that another flow
 * overfills loses for one round trip, an order that is too high goes on losing.) True if it trips for the second time
 * in short order.
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
					flow->cap += flow->cap / 16;
				if (flow->cap >= order || now - flow->cap_ns > cfg->loss_retrip)
					flow->cap = 0;
			}
		} else if (!(flow->flags & FLOW_LOSING)) {
			flow->flags |= FLOW_LOSING;
		} else {
			if (flow->trip_ns && now - flow->trip_ns < cfg->loss_retrip)
				return 1;
			/* Delivery measured while holes are being filled is too low: what was not lost is the other measure. */
			pacing = flow->cap ? flow->cap : order;
			kept = pacing * delivered / (delivered + lost);
			flow->trip_ns = now;
			flow->cap_ns = now;
			flow->cap = max_u64(max_u64(rate, kept), cfg->floor);
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

/*
 * Where an order is more than the path carries, its queue grows before anything is lost. A delivery window with a
 * longer round trip, in which less than seven eighths of what was sent in the window before arrived, cuts the window to
 * half of what is in flight, and again with every further one, until the queue is gone. If that takes two it was ours,
 * and the pacing is capped at the most that arrived in one. A queue that three cuts do not empty is somebody else's: then the flow is
 * left alone for a second, and the loss guard is all there is.
 */
INLINE void squeeze(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, __u64 now, __u64 delivered, long rtt_us)
{
	__u32 least = least_rtt(tp), us = now / 1000;
	bool grows = rtt_us > 0 && (__u64)rtt_us > (__u64)least + (least > 4000 ? least : 4000);

	if (!grows) {
		if (!flow->frozen)
			return;
		flow->frozen = 0;
		/* One bad window may be a processor that was busy elsewhere. */
		if (flow->cuts >= 2) {
			flow->cap = max_u64((__u64)flow->mark_us * 1024, cfg->floor);
			flow->cap_ns = now;
		}
		flow->mark_us = us;
		return;
	}
	if (!flow->frozen) {
		if (delivered * 8 >= (__u64)flow->sent_before * 7 || (__s32)(us - flow->mark_us) < 0)
			return;
		flow->frozen = in_flight(tp);
		flow->cuts = 0;
		/* While the window is cut: the rate to cap at. */
		flow->mark_us = 0;
		COUNT_UP(squeezes);
	}
	if (delivered > flow->mark_us)
		flow->mark_us = delivered;
	if (flow->cuts >= 3) {
		flow->frozen = 0;
		flow->mark_us = us + 1000000;
		return;
	}
	flow->cuts++;
	flow->frozen = flow->frozen / 2 > MIN_CWND ? flow->frozen / 2 : MIN_CWND;
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
			     const struct rate_sample *rs)
{
	__u32 us = now / 1000, elapsed = us - flow->dlv_us;
	__u64 per_segment, acked;

	if (elapsed < 8000 || elapsed < tp->srtt_us >> 3)
		return 0;
	acked = (__u64)((__u32)tp->bytes_acked - flow->dlv_acked) * 1000000 / elapsed;
	per_segment = (__u64)tp->mss_cache * 1000000 / elapsed;
	/* What arrived out of order has arrived too. */
	if (!rs->is_app_limited && !rs->is_ack_delayed)
		squeeze(tp, flow, cfg, now, (tp->delivered - flow->segments) * per_segment / 1024, rs->rtt_us);
	flow->sent_before = (tp->data_segs_out - flow->dlv_sent) * per_segment / 1024;
	open_window(tp, flow, us);
	return acked;
}

/*
 * Follows the order for one acknowledgement. Returns 0, or as an event kind why the socket has to be handed over.
 */
INLINE __u32 on_ack(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, const struct rate_sample *rs)
{
	__u64 now = tp->tcp_mstamp * 1000, delivery, order, pacing, expiry;
	struct sluice_stat *row;
	__u32 index = flow->index, flags = 0;

	if (flow->flags & FLOW_RENO) {
		reno(tp, flow, rs->losses > 0, rs->acked_sacked, now);
		return 0;
	}
	if (!flow->gen)
		return SLUICE_EVENT_TABLE_FULL;
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	/* Another generation: the row was reclaimed. */
	if (!cfg || !row || row->gen != flow->gen)
		return SLUICE_EVENT_EXPIRED;
	order = flow->rate;
	expiry = flow->expiry;
	if (read_order(cfg, index, flow->gen, now, &order, &expiry) == ORDER_RELEASE)
		return SLUICE_EVENT_RELEASED;
	flow->rate = order;
	flow->expiry = expiry;
	if (now > expiry)
		return SLUICE_EVENT_EXPIRED;
	order = clamp_rate(cfg, order);
	if (loss_guard(tp, flow, cfg, now, order))
		return SLUICE_EVENT_LOSS_GUARD;
	pacing = order;
	if (flow->cap && flow->cap < pacing)
		pacing = flow->cap;
	delivery = delivery_window(tp, flow, cfg, now, rs);
	flow->last_us = now / 1000;
	if (tp->write_seq == tp->snd_una)
		flow->flags |= FLOW_EMPTY;
	set_pacing(tp, pacing);
	tp->snd_cwnd = window(tp, flow, pacing);
	if (flow->cap)
		flags |= SLUICE_STAT_LOSS_GUARD;
	if (flow->frozen)
		flags |= SLUICE_STAT_SQUEEZED;
	write_row(row, tp, delivery, pacing, now, flags);
	return 0;
}

INLINE void control(struct tcp_sock *tp, const struct rate_sample *rs)
{
	struct flow *flow = flow_of(tp);
	struct sluice_cfg *cfg = config();
	__u32 why = on_ack(tp, flow, cfg, rs);

	if (why)
		hand_over(tp, flow, cfg, why);
}

/* Kernels from 6.10: (sk, ack, flag, rs). */
SEC("fentry/cong_control")
int cong_control(__u64 *ctx)
{
	control((struct tcp_sock *)ctx[0], (const struct rate_sample *)ctx[3]);
	return 0;
}

/* Kernels before 6.10: (sk, rs). */
SEC("fentry/cong_control_old")
int cong_control_old(__u64 *ctx)
{
	control((struct tcp_sock *)ctx[0], (const struct rate_sample *)ctx[1]);
	return 0;
}

SEC("fentry/init")
int init(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct sock *sk = (struct sock *)tp;
	struct flow *flow = flow_of(tp);
	struct sluice_cfg *cfg = config();
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, tp, NULL, 0);
	__u64 now = bpf_ktime_get_ns(), rate = 0, expiry = now;
	__u32 index = 0, gen = 0;

	flow->flags = FLOW_EMPTY;
	flow->cuts = 0;
	flow->mark_us = now / 1000;
	flow->sent_before = 0;
	flow->frozen = 0;
	flow->cap = 0;
	flow->cap_ns = 0;
	flow->trip_ns = 0;
	flow->last_us = now / 1000;
	open_window(tp, flow, now / 1000);
	if (cfg) {
		rate = clamp_rate(cfg, cfg->default_rate);
		expiry = now + cfg->order_lifetime;
		if (own && own->rate_until > now && own->rate_until <= now + cfg->max_expiry) {
			rate = clamp_rate(cfg, own->rate);
			expiry = own->rate_until;
		}
		/* MPTCP subflows are watched, not managed: without a row the first acknowledgement hands them back. */
		if (!field_exists(tp->is_mptcp) || !tp->is_mptcp)
			gen = take_row(tp, &index, rate, now);
	}
	if (own)
		own->flags &= ~SLUICE_SOCK_OURS;
	flow->rate = rate;
	flow->expiry = expiry;
	flow->index = index;
	flow->gen = gen;
	flow->win_ns = now;
	flow->win_lost = tp->lost;
	flow->win_delivered = tp->delivered;
	if (!gen) {
		COUNT_UP(table_full);
		return 0;
	}
	if (sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
		flow->flags |= FLOW_PACING_OURS;
	}
	tp->snd_ssthresh = 0x7fffffff;
	set_pacing(tp, rate);
	tell(tp, SLUICE_EVENT_OPENED, index, gen);
	return 0;
}

SEC("fentry/release")
int release(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct sock *sk = (struct sock *)tp;
	struct flow *flow = flow_of(tp);
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, tp, NULL, 0);
	bool alive = sk->__sk_common.skc_state != TCP_CLOSE;
	__u32 gen = flow->gen, index = flow->index;
	__u32 kind = SLUICE_EVENT_CLOSED;

	if (alive) {
		/* The next congestion control starts from what is in flight, unpaced unless it paces itself. */
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
		if (flow->flags & FLOW_PACING_OURS)
			sk->sk_pacing_status = SK_PACING_NONE;
		tp->snd_cwnd = in_flight(tp) + 10;
	}
	if (gen)
		free_row(index, gen);
	if (flow->flags & FLOW_HANDING)
		/* Whoever hands over tells why. */
		kind = 0;
	else if (alive && own && own->flags & SLUICE_SOCK_OURS) {
		kind = SLUICE_EVENT_RELEASED;
		own->rate = flow->rate;
		own->rate_until = flow->expiry;
	} else if (alive) {
		if (own)
			own->banned_until = ~0ULL;
		COUNT_UP(foreign);
	}
	if (gen && kind)
		tell(tp, kind, index, gen);
	flow->gen = 0;
	return 0;
}

SEC("fentry/cwnd_event")
int cwnd_event(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u32 event = ctx[1];
	struct sock *sk = (struct sock *)tp;
	struct flow *flow = flow_of(tp);
	__u32 index = flow->index, gen = flow->gen, flags = 0;
	__u64 now, order, expiry;
	struct sluice_cfg *cfg;
	struct sluice_stat *row;
	enum order_state state;

	if (event != CA_EVENT_TX_START || flow->flags & FLOW_RENO || !gen)
		return 0;
	cfg = config();
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!cfg || !row)
		return 0;
	now = bpf_ktime_get_ns();
	order = flow->rate;
	expiry = flow->expiry;
	state = read_order(cfg, index, gen, now, &order, &expiry);
	if (state == ORDER_RELEASE || now > expiry || row->gen != gen) {
		hand_over(tp, flow, cfg, state == ORDER_RELEASE ? SLUICE_EVENT_RELEASED : SLUICE_EVENT_EXPIRED);
		return 0;
	}
	order = clamp_rate(cfg, order);
	if (flow->cap && flow->cap < order)
		order = flow->cap;
	/* Only ever raise here: the segment under way was sized for the old rate and is charged at the present one. */
	if (order > sk->sk_pacing_rate)
		set_pacing(tp, order);
	if (flow->cap)
		flags |= SLUICE_STAT_LOSS_GUARD;
	if (flow->flags & FLOW_EMPTY && (__u64)((__u32)(now / 1000) - flow->last_us) * 1000 >= cfg->idle_ns) {
		/* The pause is no part of what the path delivers. */
		open_window(tp, flow, now / 1000);
		tell(tp, SLUICE_EVENT_STARTED, index, gen);
	}
	flow->flags &= ~FLOW_EMPTY;
	flow->last_us = now / 1000;
	write_row(row, tp, 0, sk->sk_pacing_rate, now, flags);
	return 0;
}

SEC("fentry/set_state")
int set_state(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u32 state = ctx[1];
	struct flow *flow = flow_of(tp);
	__u32 index = flow->index;
	struct sluice_stat *row;
	struct sluice_cfg *cfg;
	__u64 order;

	if (state != TCP_CA_LOSS || flow->flags & FLOW_RENO || !flow->gen)
		return 0;
	cfg = config();
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!cfg || !row)
		return 0;
	/*
	 * A retransmission time-out: a whole window was lost, and the kernel has cut the window to one segment. Go on with
	 * half the rate, or what was delivered if that is more: with the old one the same would be lost again.
	 */
	order = clamp_rate(cfg, flow->rate);
	if (!flow->cap || flow->cap > order)
		flow->cap = order;
	flow->cap = max_u64(flow->cap / 2, row->delivery_rate);
	flow->cap = max_u64(flow->cap, cfg->floor);
	if (flow->cap >= order)
		flow->cap = 0;
	flow->cap_ns = bpf_ktime_get_ns();
	if (flow->frozen)
		flow->mark_us = flow->cap_ns / 1000;
	flow->frozen = 0;
	order = flow->cap ? flow->cap : order;
	set_pacing(tp, order);
	tp->snd_cwnd = window(tp, flow, order);
	return 0;
}

SEC("fentry/ssthresh")
int ssthresh(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);

	if (flow->flags & FLOW_RENO)
		return tp->snd_cwnd / 2 > MIN_CWND ? tp->snd_cwnd / 2 : MIN_CWND;
	return 0x7fffffff;
}

SEC("fentry/undo_cwnd")
int undo_cwnd(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	return tp->snd_cwnd;
}

/* One segment per burst for slow flows: a new rate cannot shorten the wait that the last burst was charged. */
SEC("fentry/min_tso_segs")
int min_tso_segs(__u64 *ctx __attribute__((unused)))
{
	return 1;
}
