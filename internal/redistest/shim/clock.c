/* Preloaded into redis-server, this moves its wall clock while it runs: real time plus an offset in nanoseconds, which the first eight bytes of the file named
 * by PICKET_CLOCK hold. The monotonic clock stays true. It calls the kernel directly and allocates nothing, because the server's allocator asks for the time
 * before main and while it holds its own locks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *offset;

__attribute__((constructor)) static void open_offset(void) {
	const char *name = getenv("PICKET_CLOCK");
	int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0) return;
	void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
	if (page != MAP_FAILED) offset = page;
	close(file);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int failed = (int)syscall(SYS_clock_gettime, id, ts);
	if (failed || !offset || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
	int64_t second = 1000000000, now = ts->tv_sec * second + ts->tv_nsec + __atomic_load_n(offset, __ATOMIC_RELAXED);
	ts->tv_sec = now / second;
	ts->tv_nsec = now % second;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec ts;
	(void)zone;
	int failed = clock_gettime(CLOCK_REALTIME, &ts);
	if (!failed && tv) *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
	return failed;
}

time_t time(time_t *out) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts)) return -1;
	if (out) *out = ts.tv_sec;
	return ts.tv_sec;
}
