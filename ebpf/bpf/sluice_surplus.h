/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a flow takes beyond its order where that is allowed: it grows while nothing is lost, halves when something is, as
 * TCP does. Arithmetic only, so that it compiles for a processor too: schedule/src/path/surplus.rs is its twin, and a
 * test runs both on the same traces.
 */
#ifndef SLUICE_SURPLUS_H
#define SLUICE_SURPLUS_H

#include "sluice_abi.h"

/* The least time between two looks. */
#define SURPLUS_PERIOD 2000000ULL

/* What the path shows at a look. */
struct surplus_signs {
	__u64 now;
	/* Smoothed round-trip time, ns. */
	__u64 rtt;
	/* Segments lost since the connection began. */
	__u32 lost;
	/* The application, not the pacing, set the rate of late. */
	__u32 app_limited;
};

/*
 * By how much the extra grows at a look without a loss: by an eighth of the rate while that is half a link below the one at
 * which something was lost last, or nobody knows of one; slowly from there on; and that is forgotten once it is outgrown by
 * a sixteenth of the link. The slow step is in proportion to the order, so that who goes first also takes most of what is
 * over. It is small, so that unmanaged traffic has nearly what it has beside orders alone.
 */
INLINE __u64 surplus_step(struct sluice_surplus *s, __u64 order, __u64 link)
{
	__u64 rate = order + s->extra, near = link / 2, quick = rate / 8, slow = order / 256;

	if (quick < link / 64)
		quick = link / 64;
	if (slow < link / 2048)
		slow = link / 2048;
	if (s->peak && rate >= s->peak + link / 16)
		s->peak = 0;
	if (!s->peak)
		return quick;
	if (rate + near >= s->peak)
		return slow;
	return quick < s->peak - near - rate ? quick : s->peak - near - rate;
}

/*
 * Bytes/s beyond the order, with which it is at most `link`; 0 where nothing more is allowed (link 0, or a guard holds
 * the flow), and where the order is nearly all of the link.
 */
INLINE __u64 surplus_look(struct sluice_surplus *s, __u64 order, __u64 link, const struct surplus_signs *seen)
{
	__u64 room = order < link - link / 16 ? link - order : 0;
	__u64 period = seen->rtt > SURPLUS_PERIOD ? seen->rtt : SURPLUS_PERIOD;

	if (s->extra > room)
		s->extra = room;
	if (room && seen->now - s->looked < period)
		return s->extra;
	if (room && seen->lost != s->lost) {
		/* What is lost in the looks after that was sent before it was answered. */
		if (!s->cuts)
			s->peak = order + s->extra;
		s->cuts++;
		s->extra /= 2;
	} else {
		s->cuts = 0;
		if (room && !seen->app_limited) {
			s->extra += surplus_step(s, order, link);
			if (s->extra > room)
				s->extra = room;
		}
	}
	s->looked = seen->now;
	s->lost = seen->lost;
	return s->extra;
}

#endif
