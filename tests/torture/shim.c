/* Lies to a program about the time, and delays its writes to the disk. Loaded with LD_PRELOAD.
 *
 * The file DISTURB_FILE holds two 64-bit numbers: milliseconds that the clock is ahead, and milliseconds that each
 * fsync takes longer. Without the file the program notices nothing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control { volatile int64_t ahead_ms, sync_ms; };

static const struct control none;
static const struct control *control = &none;

__attribute__((constructor)) static void open_control(void) {
    const char *path = getenv("DISTURB_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * 1000000000LL + now->tv_nsec + control->ahead_ms * 1000000LL;
        now->tv_sec = ns / 1000000000LL;
        now->tv_nsec = ns % 1000000000LL;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *result) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (result) *result = exact.tv_sec;
    return exact.tv_sec;
}

static void delay(void) {
    if (control->sync_ms) usleep(control->sync_ms * 1000);
}

int fsync(int file) {
    delay();
    return syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    delay();
    return syscall(SYS_fdatasync, file);
}
