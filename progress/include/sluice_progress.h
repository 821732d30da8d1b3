/* Sluice progress page, version 1: tell the scheduler of this host what is about to be sent.
 *
 * Nothing here can disturb the caller: without a daemon every call does nothing, no call blocks, prints or exits,
 * and a forked child is silent until it opens its own page. All functions may be called from any thread. They
 * return 0 (sluice_open: a handle, sluice_peer: an index) or -1, which may be ignored.
 *
 *   struct sluice_ident id = { .size = sizeof id, .source = 4, .rank = 0, .nranks = 8, .pattern = 1 };
 *   int h = sluice_open(&id);
 *   sluice_iteration(h);                       // a round begins
 *   sluice_enqueue(h, bytes, 2 * bytes * 7 / 8); // tensors queued, and what leaves this rank of them
 *   sluice_net_begin(h);  ...  sluice_net_end(h);
 *   sluice_close(h);
 *
 * Link with -lsluice_progress (static: also -lpthread -ldl -lm).
 */
#ifndef SLUICE_PROGRESS_H
#define SLUICE_PROGRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_UNKNOWN_RANK 0xffffffffu

enum sluice_source { SLUICE_NCCL_PROFILER = 1, SLUICE_PSLITE = 2, SLUICE_PRELOAD = 3, SLUICE_APPLICATION = 4 };
enum sluice_pattern { SLUICE_PATTERN_UNKNOWN = 0, SLUICE_RING = 1, SLUICE_TREE = 2, SLUICE_PS = 3, SLUICE_P2P = 4 };
enum sluice_role { SLUICE_PEER = 0, SLUICE_SCHEDULER = 1, SLUICE_SERVER = 2, SLUICE_WORKER = 3 };
enum sluice_states { SLUICE_INIT = 0, SLUICE_COMPUTE = 1, SLUICE_ENQUEUED = 2, SLUICE_ON_WIRE = 3, SLUICE_FINISHED = 4 };

struct sluice_ident {
	uint32_t size;            /* sizeof(struct sluice_ident) */
	uint32_t source;          /* enum sluice_source */
	const char *job_id;       /* NULL: SLUICE_JOB_ID, SLURM_JOB_ID or TORCHELASTIC_RUN_ID; 64 bytes count */
	const char *producer;     /* "nccl 2.28.9 v5"; NULL: none; 32 bytes count */
	uint64_t comm_id;         /* equal on all ranks; 0: not known */
	uint32_t rank;            /* SLUICE_UNKNOWN_RANK: not known */
	uint32_t nranks;          /* 0: not known */
	uint32_t nnodes;          /* 0: not known */
	uint32_t local_rank;      /* SLUICE_UNKNOWN_RANK: not known */
	uint32_t pattern;         /* enum sluice_pattern */
	uint32_t role;            /* enum sluice_role */
	uint64_t hint_iter_bytes; /* 0: SLUICE_ITER_BYTES, or none */
	uint64_t hint_compute_ns; /* 0: none */
};

struct sluice_peer {
	uint32_t size;      /* sizeof(struct sluice_peer) */
	uint32_t rank;      /* SLUICE_UNKNOWN_RANK: not known */
	uint16_t kind;      /* 1 connected, 2 accepted, 0 not known */
	uint16_t lport;     /* host byte order */
	uint16_t rport;     /* host byte order */
	uint16_t reserved;  /* 0 */
	uint8_t laddr[16];  /* IPv4 as ::ffff:a.b.c.d */
	uint8_t raddr[16];
	uint64_t cookie;    /* SO_COOKIE; 0: not known */
};

int sluice_open(const struct sluice_ident *ident);
int sluice_enqueue(int handle, uint64_t bytes, uint64_t wire_bytes);
int sluice_net_begin(int handle);
int sluice_net_end(int handle);
int sluice_sent(int handle, uint64_t bytes);
int sluice_received(int handle, uint64_t bytes);
int sluice_iteration(int handle);
int sluice_state(int handle, uint64_t state);
int sluice_peer(int handle, const struct sluice_peer *peer);
int sluice_peer_sent(int handle, int peer, uint64_t bytes);
int sluice_close(int handle);
int sluice_version(void); /* major * 1000 + minor */

#ifdef __cplusplus
}
#endif
#endif
