/* For LD_PRELOAD: makes CLOCK_MONOTONIC lag behind, as on a machine that was suspended. The file that
 * MENAGERIE_TEST_SUSPENDED names holds the lag in nanoseconds; it is mapped, so that a test can change it while the process
 * is stopped. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t *suspended;

__attribute__((constructor)) static void map_suspended(void) {
    const char *path = getenv("MENAGERIE_TEST_SUSPENDED");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *map = mmap(NULL, sizeof *suspended, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED)
        suspended = map;
}

int clock_gettime(clockid_t id, struct timespec *time) {
    if (syscall(SYS_clock_gettime, id, time) != 0)
        return -1;
    int stands_still = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW || id == CLOCK_MONOTONIC_COARSE;
    if (stands_still && suspended) {
        int64_t nanos = time->tv_sec * INT64_C(1000000000) + time->tv_nsec
            - __atomic_load_n(suspended, __ATOMIC_RELAXED);
        time->tv_sec = nanos / INT64_C(1000000000);
        time->tv_nsec = nanos % INT64_C(1000000000);
    }
    return 0;
}
