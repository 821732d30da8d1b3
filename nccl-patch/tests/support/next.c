/* A profiler of one version of the interface (-DV=n), or of several (-DSEVERAL): it writes down what it is told, field by
 * field at the places where its version has them, and follows the parents that it is given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(type, offset) (*(const type *)((const char *)d + (offset)))
#define TEXT(offset) (AT(const char *, offset) ? AT(const char *, offset) : "-")

static int context;
static char told[1 << 16];

static void tell(const char *line)
{
	strncat(told, line, sizeof told - strlen(told) - 1);
}

const char *what_was_told(void)
{
	static char copy[sizeof told];
	memcpy(copy, told, sizeof told);
	told[0] = 0;
	return copy;
}

#ifdef V
struct node { const char *what; int live; };
static struct node nodes[256];
static int used;

static const char *name_of(const struct node *node)
{
	return node ? node->what : "none";
}

/* Versions 2 and 3 have name and hash before everything else; 2 has the bytes of the traffic too. */
#define OLD (V <= 3 ? 16 : 0)
#define LATE (V <= 2 ? 24 : V == 3 ? 16 : 0)

static int start(void *ctx, void **handle, const void *d)
{
	struct node *node = &nodes[used++ % 256];
	uint64_t type = V <= 4 ? AT(uint8_t, 0) : AT(uint64_t, 0);
	char line[512], who[64];
	snprintf(who, sizeof who, "rank %d below %s", AT(int, 16), name_of(AT(struct node *, 8)));
	node->live = 1;
	switch (type) {
	case 1 << 0:
		node->what = "group";
		snprintf(line, sizeof line, "group\n");
		break;
	case 1 << 1:
		node->what = "coll";
		snprintf(line, sizeof line, "coll %s in %s seq %lu %s count %lu root %d %s channels %d warps %d %s %s hash %lu\n", who,
			 V >= 5 ? name_of(AT(struct node *, 104)) : "-", AT(uint64_t, 24 + OLD), TEXT(32 + OLD),
			 AT(uint64_t, 56 + OLD), AT(int, 64 + OLD), TEXT(72 + OLD), AT(uint8_t, 80 + LATE), AT(uint8_t, 81 + LATE),
			 TEXT(88 + LATE), TEXT(96 + LATE), V <= 3 ? AT(uint64_t, 32) : 0);
		break;
	case 1 << 2:
		node->what = "p2p";
		snprintf(line, sizeof line, "p2p %s in %s %s %s count %lu peer %d channels %d\n", who,
			 V >= 5 ? name_of(AT(struct node *, 64)) : "-", TEXT(24 + OLD), TEXT(40 + OLD), AT(uint64_t, 48 + OLD),
			 AT(int, 56 + OLD), V >= 4 ? AT(uint8_t, 60) : 0);
		break;
	case 1 << 3:
		node->what = "op";
		snprintf(line, sizeof line, "op %s channel %d peer %d steps %d chunk %d send %d\n", who, AT(uint8_t, 28), AT(int, 32),
			 AT(int, 36), AT(int, 40), AT(int, 44));
		break;
	case 1 << 4:
		node->what = "step";
		snprintf(line, sizeof line, "step %s number %d\n", who, AT(int, 24));
		break;
	case 1 << 5:
		node->what = "control";
		snprintf(line, sizeof line, "control\n");
		break;
	case 1 << 6:
		node->what = "kernel";
		snprintf(line, sizeof line, "kernel %s channel %d time %lu\n", who, AT(uint8_t, 24), V >= 4 ? AT(uint64_t, 32) : 0);
		break;
	case 1 << 7:
		node->what = "net";
		snprintf(line, sizeof line, "net %s id %lx data %lx\n", who, AT(uint64_t, 24), AT(uint64_t, 32));
		break;
	case 1 << 8:
		node->what = "groupApi";
		snprintf(line, sizeof line, "groupApi depth %d\n", AT(int, 28));
		break;
	case 1 << 9:
		node->what = "collApi";
		snprintf(line, sizeof line, "collApi %s %s count %lu\n", who, TEXT(24), AT(uint64_t, 32));
		break;
	case 1 << 12:
		node->what = "ceColl";
		snprintf(line, sizeof line, "ceColl %s\n", who);
		break;
	default:
		node->what = "unknown";
		snprintf(line, sizeof line, "unknown %lx\n", type);
	}
	tell(ctx == &context ? line : "another context\n");
	*handle = node;
	return 0;
}

static int stop(struct node *node)
{
	if (!node->live--)
		tell("stopped twice\n");
	return 0;
}

static int state(struct node *node, int state, const void *d)
{
	char line[128];
	if (!d)
		snprintf(line, sizeof line, "%s is in %d\n", name_of(node), state);
	else
		snprintf(line, sizeof line, "%s is in %d with %lu\n", name_of(node), state,
			 state >= 13 && state <= 18 ? AT(uint32_t, 0) : AT(uint64_t, 0));
	tell(line);
	return 0;
}

static int finalize(void *ctx)
{
	tell(ctx == &context ? "over\n" : "another context\n");
	return 0;
}

#if V <= 3
static int init(void **ctx, int *mask)
{
	tell("begun\n");
#elif V == 4
static int init(void **ctx, int *mask, const char *name, uint64_t id, int nodes_, int ranks, int rank, void *log)
{
	char line[128];
	snprintf(line, sizeof line, "begun %s %lx hosts %d ranks %d rank %d\n", name, id, nodes_, ranks, rank);
	tell(line);
#else
static int init(void **ctx, uint64_t id, int *mask, const char *name, int nodes_, int ranks, int rank, void *log)
{
	char line[128];
	snprintf(line, sizeof line, "begun %s %lx hosts %d ranks %d rank %d\n", name, id, nodes_, ranks, rank);
	tell(line);
#endif
	*ctx = &context;
	*mask = getenv("NEXT_ASKS") ? atoi(getenv("NEXT_ASKS")) : 0xffff;
	return 0;
}

#define TABLE_(n) ncclProfiler_v##n
#define TABLE(n) TABLE_(n)
const struct { const char *name; void *functions[5]; } TABLE(V) = { "next", { init, start, stop, state, finalize } };
#endif

#ifdef SEVERAL
static int nothing(void)
{
	return 0;
}
#define INIT(n, ...) \
	static int init_v##n(__VA_ARGS__) { *ctx = &context; *mask = 2; tell("v" #n "\n"); return 0; } \
	const struct { const char *name; void *functions[5]; } ncclProfiler_v##n = \
		{ "several", { init_v##n, nothing, nothing, nothing, nothing } };
INIT(3, void **ctx, int *mask)
INIT(5, void **ctx, uint64_t id, int *mask, const char *name, int nodes_, int ranks, int rank, void *log)
INIT(7, void **ctx, uint64_t id, int *mask, const char *name, int nodes_, int ranks, int rank, void *log)
#endif
