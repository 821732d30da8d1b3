/* Descriptors that are copied, replaced and closed in numbers while their connections go on, or do not. Prints how many
 * bytes the process sent over connections of ZeroMQ's form. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern int close_range(unsigned first, unsigned last, int flags);
#define MARK 77
#define RANGE_CLOEXEC 4

static struct sockaddr_in at = { .sin_family = AF_INET };
static socklen_t size = sizeof at;
static int listener;
static long sent;

static void must(int right, int line)
{
	if (!right) {
		fprintf(stderr, "line %d: errno %d\n", line, errno);
		exit(9);
	}
}

/* Right, and errno is what it was. */
#define WELL(call) (errno = MARK, must((call) && errno == MARK, __LINE__))
#define WRONG(call, code) (errno = MARK, must((call) == -1 && errno == (code), __LINE__))

/* One end of a connection that has shaken hands: greeting and READY in one call of two messages. */
static int speaks(void)
{
	static char ready[] = "\x04\x16\x05READY\x08Identity\0\0\0\x03ps9";
	char greeting[64] = { 0 };
	struct iovec first[2] = { { greeting, 10 }, { greeting + 10, 54 } }, second = { ready, 24 };
	struct mmsghdr both[2] = { { .msg_hdr = { .msg_iov = first, .msg_iovlen = 2 } },
				   { .msg_hdr = { .msg_iov = &second, .msg_iovlen = 1 } } };
	int near = socket(AF_INET, SOCK_STREAM, 0);
	memcpy(greeting, "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
	must(!connect(near, (void *)&at, size), __LINE__);
	must(accept(listener, NULL, NULL) >= 0, __LINE__);
	WELL(sendmmsg(near, both, 2, 0) == 2);
	sent += 64 + 24;
	return near;
}

/* A command with a body of one byte. */
static void says(int fd)
{
	WELL(send(fd, "\4\1x", 3, MSG_NOSIGNAL) == 3);
	sent += 3;
}

/* What is no frame of anybody's, and none of the bytes that count. */
static void babbles(int fd)
{
	WELL(write(fd, "\xff\xff\xff\xff\xff", 5) == 5);
}

/* A push of one tensor, as dmlc's worker sends it. */
static void pushes(int fd)
{
	static const char meta[] = "\1\x13\x08\0\x20\1\x28\1\x38\0\x40\x09\x4a\3\5\x08\3\x50\0\x60";
	char message[21 + 10 + 102 + 6] = { 0 };
	memcpy(message, meta, 20);
	memcpy(message + 21, "\1\x08\7", 3);
	memcpy(message + 31, "\1\x64", 2);
	memcpy(message + 133, "\0\4\x64", 3);
	WELL(write(fd, message, sizeof message) == sizeof message);
	sent += sizeof message;
}

/* The page has the connection once, with all of its bytes, whichever descriptor it goes by. */
static void tensors(void)
{
	int near = speaks();
	pushes(near);
	WELL(dup2(near, 300) == 300);
	pushes(300), pushes(near);
	WELL(!close(near));
	pushes(300);
}

static void copies(void)
{
	int near = speaks(), high, copy, other;
	/* In turns on the original and its copy, and on the copy of the copy. */
	WELL((high = dup2(near, 300)) == 300);
	says(near), says(high), says(near);
	WELL((copy = dup(high)) >= 0);
	says(copy), says(near), says(high);
	/* The original is closed; its newest copy goes on, and takes the connection with it. */
	WELL(!close(near));
	says(copy), says(copy);
	/* Its number belongs to something else now. */
	WELL((other = open("/dev/null", O_WRONLY)) == near);
	babbles(other);
	WELL(!close(other));
	/* A copy on itself, and a copy that fails, change nothing. */
	WELL(dup2(copy, copy) == copy);
	WRONG(dup2(-1, copy), EBADF);
	WRONG(dup3(copy, copy, O_CLOEXEC), EINVAL);
	WRONG(dup3(copy, 301, 99), EINVAL);
	says(copy);
	WELL(dup3(copy, 301, O_CLOEXEC) == 301);
	says(301), says(copy);
	/* The copy goes first. */
	WELL(!close(301));
	says(copy);
}

/* A connection gives way to something else in its own number. */
static void replaced(void)
{
	int near = speaks(), null = open("/dev/null", O_WRONLY), next;
	says(near);
	WELL(dup2(null, near) == near);
	babbles(near);
	/* And something else to a connection. */
	next = speaks();
	WELL(dup2(next, near) == near);
	says(near), says(next);
	WELL(dup3(null, next, O_CLOEXEC) == next);
	babbles(next);
	says(near), says(near);
	WELL(!close(null));
}

static void ranges(void)
{
	int first = speaks(), second = speaks(), null;
	says(first), says(second);
	/* Nothing is closed. */
	WRONG(close_range(second, first, 0), EINVAL);
	WRONG(close_range(first, second, 64), EINVAL);
	WELL(!close_range(first, second, RANGE_CLOEXEC));
	says(first), says(second);
	/* Something is, and its numbers are used again. */
	WELL(!close_range(first, second + 1, 0));
	WRONG(send(first, "x", 1, 0), EBADF);
	WELL((null = open("/dev/null", O_WRONLY)) == first);
	babbles(null);
	WELL(dup2(null, second) == second);
	babbles(second);
	WELL(!close_range(first, ~0U, 0));
}

/* What children do to their descriptors, whether or not they share the memory. */
static void children(void)
{
	int near = speaks(), null = open("/dev/null", O_WRONLY);
	pid_t child = vfork();
	if (child == 0) {
		dup2(null, near);
		dup2(near, 302);
		close_range(3, ~0U, 0);
		_exit(0);
	}
	must(waitpid(child, NULL, 0) == child, __LINE__);
	says(near);
	child = fork();
	if (child == 0) {
		dup2(near, 303);
		must(send(303, "\4\1x", 3, 0) == 3, __LINE__);
		dup2(null, near);
		close_range(3, ~0U, 0);
		_exit(0);
	}
	must(waitpid(child, NULL, 0) == child, __LINE__);
	says(near);
	WELL(!close(null));
}

/* What comes in, two messages at once. */
static void receives(void)
{
	int near = speaks(), far = socket(AF_INET, SOCK_STREAM, 0), end = -1;
	char one, rest[200];
	struct iovec first = { &one, 1 }, second = { rest, sizeof rest };
	struct mmsghdr both[2] = { { .msg_hdr = { .msg_iov = &first, .msg_iovlen = 1 } },
				   { .msg_hdr = { .msg_iov = &second, .msg_iovlen = 1 } } };
	(void)near;
	must(!connect(far, (void *)&at, size) && (end = accept(listener, NULL, NULL)) >= 0, __LINE__);
	{
		static char hello[64 + 24] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL";
		memcpy(hello + 64, "\x04\x16\x05READY\x08Identity\0\0\0\x03ps8", 24);
		must(send(far, hello, sizeof hello, 0) == sizeof hello, __LINE__);
		sent += sizeof hello;
		usleep(20000);
		WELL(recvmmsg(end, both, 2, MSG_WAITFORONE, NULL) == 2);
		must(both[0].msg_len == 1 && both[1].msg_len == sizeof hello - 1, __LINE__);
	}
}

/* Threads that copy, replace, close and use the same few descriptors, all at once; nothing that counts is said of them. */
static void *meddles(void *seed)
{
	unsigned long x = 0x9e3779b97f4a7c15UL * (unsigned long)seed;
	for (int turn = 0; turn < 4000; turn++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		int one = 300 + (x >> 8) % 6, two = 300 + (x >> 16) % 6;
		errno = MARK;
		switch (x % 8) {
		case 0:
			close(one);
			break;
		case 1:
			close_range(one, one + 2, 0);
			break;
		case 2:
		case 3:
			dup2(one, two);
			break;
		case 4: {
			int near = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
			connect(near, (void *)&at, size);
			dup3(near, one, O_CLOEXEC);
			close(near);
			break;
		}
		default:
			send(one, "\xff\0\0\0\0\0\0\0\1\x7f", 10, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
	}
	return NULL;
}

static void threads(void)
{
	pthread_t all[4];
	for (unsigned long at = 0; at < 4; at++)
		must(!pthread_create(&all[at], NULL, meddles, (void *)(at + 1)), __LINE__);
	for (int at = 0; at < 4; at++)
		must(!pthread_join(all[at], NULL), __LINE__);
	close_range(300, 310, 0);
	/* Another listener: the queue of the first is full of what the threads left. */
	close(listener);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	at.sin_port = 0;
	must(!bind(listener, (void *)&at, size) && !listen(listener, 9) && !getsockname(listener, (void *)&at, &size), __LINE__);
	speaks();
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	must(!bind(listener, (void *)&at, size) && !listen(listener, 9) && !getsockname(listener, (void *)&at, &size), __LINE__);
	dup2(listener, 200);
	listener = 200;
	if (!strcmp(what, "copies"))
		copies();
	else if (!strcmp(what, "replaced"))
		replaced();
	else if (!strcmp(what, "ranges"))
		ranges();
	else if (!strcmp(what, "children"))
		children();
	else if (!strcmp(what, "tensors"))
		tensors();
	else if (!strcmp(what, "threads"))
		threads();
	else
		receives();
	printf("%ld\n", sent);
	return 0;
}
