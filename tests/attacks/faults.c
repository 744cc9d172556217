/* Lets one operation on files under a folder fail: preloaded into the command by soak.py.
 *
 *   FAULTS_ROOT   operations on files whose path begins with this count, from 1 on
 *   FAULTS_AT     the operation that fails; 0 lets none fail
 *   FAULTS_KIND   eio, enospc: it fails so; lasting: it and all that follow fail with ENOSPC; short: a write writes half;
 *                 kill: the process is killed before it
 *   FAULTS_COUNT  a file to which the number of operations is written at the end, if it ends by itself
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static const char *root, *kind;
static long at;
static atomic_long count;
static __thread int inside;

__attribute__((constructor)) static void begin(void) {
    root = getenv("FAULTS_ROOT");
    kind = getenv("FAULTS_KIND");
    at = getenv("FAULTS_AT") ? atol(getenv("FAULTS_AT")) : 0;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULTS_COUNT");
    FILE *file = path ? (inside = 1, fopen(path, "w")) : NULL;
    if (file) {
        fprintf(file, "%ld\n", atomic_load(&count));
        fclose(file);
    }
}

static int ours(const char *path) {
    return root && kind && path && strncmp(path, root, strlen(root)) == 0;
}

static int ours_fd(int fd) {
    char link[64], path[PATH_MAX];
    if (!root || inside) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return ours(path);
}

enum { PASS, FAIL, SHORT };

/* Counts an operation, and says what becomes of it; errno is set if it fails. */
static int fate(int counts) {
    if (!counts || inside) return PASS;
    long number = atomic_fetch_add(&count, 1) + 1;
    int lasting = strcmp(kind, "lasting") == 0;
    if (at == 0 || number < at || (number > at && !lasting)) return PASS;
    if (strcmp(kind, "kill") == 0) {
        kill(getpid(), SIGKILL);
        pause();
    }
    if (strcmp(kind, "short") == 0) return SHORT;
    errno = strcmp(kind, "eio") == 0 ? EIO : ENOSPC;
    return FAIL;
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t length) {
    switch (fate(ours_fd(fd))) {
    case FAIL: return -1;
    case SHORT: length = length > 1 ? length / 2 : length;
    }
    return REAL(write)(fd, bytes, length);
}

int fsync(int fd) { return fate(ours_fd(fd)) == FAIL ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fate(ours_fd(fd)) == FAIL ? -1 : REAL(fdatasync)(fd); }
int ftruncate64(int fd, off64_t length) { return fate(ours_fd(fd)) == FAIL ? -1 : REAL(ftruncate64)(fd, length); }
int rename(const char *from, const char *to) { return fate(ours(to)) == FAIL ? -1 : REAL(rename)(from, to); }
int unlink(const char *path) { return fate(ours(path)) == FAIL ? -1 : REAL(unlink)(path); }
int mkdir(const char *path, mode_t mode) { return fate(ours(path)) == FAIL ? -1 : REAL(mkdir)(path, mode); }
ssize_t read(int fd, void *bytes, size_t length) { return fate(ours_fd(fd)) == FAIL ? -1 : REAL(read)(fd, bytes, length); }

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return fate(ours(path)) == FAIL ? -1 : REAL(open64)(path, flags, mode);
}
