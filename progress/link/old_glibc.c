/* Functions by names that every glibc has, so that a library linked on a new one loads on an old one too.
 *
 * glibc 2.34 moved these functions from libdl and libpthread into libc under a version of its own, and kept the old version
 * beside it. A linker always takes the new one. So each name is defined here, seen by nobody outside the library, and
 * goes on to the old version; before 2.34 that is found in libdl and libpthread, which the library needs for that.
 * The others came late, and are what they are in glibc: system calls. */
#include <sys/syscall.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define OLD(name)                                                                                                      \
	__asm__(".symver sluice_old_" #name ", " #name "@GLIBC_2.2.5\n"                                                \
		".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name ":\n"                 \
		"\tjmp *sluice_old_" #name "@GOTPCREL(%rip)\n"                                                         \
		".size " #name ", .-" #name "\n")

OLD(dlopen);
OLD(dlsym);
OLD(dladdr);
OLD(dlclose);
OLD(pthread_key_create);
OLD(pthread_key_delete);
OLD(pthread_getspecific);
OLD(pthread_setspecific);

extern long syscall(long number, ...);

/* Since 2.33; before, every library had its own, made of `__xstat`. */
HIDDEN int stat64(const char *path, void *at)
{
	return (int)syscall(SYS_stat, path, at);
}

HIDDEN int fstat64(int fd, void *at)
{
	return (int)syscall(SYS_fstat, fd, at);
}

/* Since 2.28. Rust's library knows what to do where the kernel has none. */
HIDDEN int statx(int dir, const char *path, int flags, unsigned mask, void *at)
{
	return (int)syscall(SYS_statx, dir, path, flags, mask, at);
}

/* Since 2.30. */
HIDDEN int gettid(void)
{
	return (int)syscall(SYS_gettid);
}
