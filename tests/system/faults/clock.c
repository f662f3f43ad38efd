/* Stands between a program and the system's wall clock, by LD_PRELOAD: CLOCK_AHEAD names a file of eight bytes, a signed
 * integer in the machine's order, and the wall clock is so many seconds ahead. The monotonic clock is left alone.
 *
 * Debian's libfaketime 0.9.10 is no use here: with FAKETIME_DONT_FAKE_MONOTONIC every clock_nanosleep fails with EINVAL,
 * even at +0, so that Python's time.sleep raises, and threads that sleep end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *ahead;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void find(void)
{
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CLOCK_AHEAD");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *shared = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (!real_gettime || shared == MAP_FAILED)
        abort();
    ahead = shared;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real_gettime)
        find();
    int failed = real_gettime(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *(const volatile int64_t *)ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
