/* Shifts the wall clock of the process that preloads it; monotonic clocks stay as they are.
   CLOCK_SHIFT names a file whose first eight bytes are the shift in seconds, read at every call,
   so a test can step the clock of a running process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *shift;
static volatile long none = 0;

__attribute__((constructor)) static void open_shift(void)
{
    const char *name = getenv("CLOCK_SHIFT");
    int file = name ? open(name, O_RDONLY) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    shift = map == MAP_FAILED ? &none : (volatile long *)map;
    if (file >= 0)
        close(file);
}

static long by(void)
{
    return shift ? *shift : 0;
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    int result = (int)syscall(SYS_clock_gettime, id, at);
    if (!result && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        at->tv_sec += by();
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
