/* A thread that is cancelled while it receives, and a child of vfork that closes a connection its parent goes on using.
 * Prints how many bytes the parent sent on it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int cleaned;

static void clean(void *unused)
{
	(void)unused;
	cleaned = 1;
}

static void *receive(void *fd)
{
	char byte;
	pthread_cleanup_push(clean, NULL);
	while (recv(*(int *)fd, &byte, 1, 0) >= 0)
		;
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	static const char ready[] = "\x05READY\x08Identity\0\0\0\x03ps9";
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0), far;
	char greeting[64] = { 0 }, head[2] = { 4, sizeof ready - 1 };
	pthread_t thread;
	void *result;
	long sent = 0;
	pid_t child;

	if (bind(listener, (void *)&at, size) || listen(listener, 1) || getsockname(listener, (void *)&at, &size))
		return 2;
	if (connect(near, (void *)&at, size) || (far = accept(listener, NULL, NULL)) < 0)
		return 3;
	if (pthread_create(&thread, NULL, receive, &far))
		return 4;
	usleep(20000);
	pthread_cancel(thread);
	if (pthread_join(thread, &result) || result != PTHREAD_CANCELED || !cleaned)
		return 5;
	memcpy(greeting, "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
	sent += send(near, greeting, sizeof greeting, 0);
	child = vfork();
	if (child == 0) {
		close(near);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		return 6;
	sent += write(near, head, sizeof head);
	sent += send(near, ready, sizeof ready - 1, 0);
	sent += send(near, "\4\1x", 3, 0);
	printf("%ld\n", sent);
	return 0;
}
