// Runs the device code on the CPU, for tests: stands before the generated source, which a C++17 compiler then takes.
// Blocks run one after the other. A block of one thread runs in the caller; more threads are threads of the host, with
// real barriers, so that a missing __syncthreads() is a data race that tests (and thread sanitisers) can see.

#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

// Only kernels are seen from outside. Shared memory in a struct's function would otherwise be one and the same in all libraries that
// a process has loaded, and comparisons that run at the same time would write to each other's.
#pragma GCC visibility push(hidden)

#define __device__
#define __global__ __attribute__((visibility("default")))
#define __shared__ static
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(threads, blocks)

struct Place {
    unsigned x, y, z;
};
static thread_local Place threadIdx = {0, 0, 0}, blockIdx = {0, 0, 0};
static Place blockDim = {1, 1, 1}, gridDim = {1, 1, 1};

class Barrier {
    std::mutex mutex;
    std::condition_variable changed;
    unsigned size = 1, waiting = 0, generation = 0;

public:
    void resize(unsigned threads) { size = threads; }
    void wait() {
        if (size == 1) return;
        std::unique_lock<std::mutex> lock(mutex);
        const unsigned mine = generation;
        if (++waiting == size) {
            waiting = 0;
            generation++;
            changed.notify_all();
        } else {
            changed.wait(lock, [&] { return generation != mine; });
        }
    }
};

static const unsigned MAX_THREADS = 64;
static Barrier block_barrier, team_barriers[MAX_THREADS];
static double swapped[MAX_THREADS];

static void __syncthreads() { block_barrier.wait(); }
static void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static void team_sync() { team_barriers[threadIdx.x / LANES].wait(); }
template <class T>
static T team_swap(T value, int distance) {
    swapped[threadIdx.x] = (double)value;
    team_sync();
    const T other = (T)swapped[threadIdx.x ^ (unsigned)distance];
    team_sync();
    return other;
}

static unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long both = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static float __int_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static float __uint_as_float(unsigned bits) { return __int_as_float(bits); }

static void call(void* kernel, void** a, unsigned count) {
    typedef void* V;
    switch (count) {
        case 1: ((void (*)(V))kernel)(a[0]); break;
        case 2: ((void (*)(V, V))kernel)(a[0], a[1]); break;
        case 3: ((void (*)(V, V, V))kernel)(a[0], a[1], a[2]); break;
        case 4: ((void (*)(V, V, V, V))kernel)(a[0], a[1], a[2], a[3]); break;
        case 5: ((void (*)(V, V, V, V, V))kernel)(a[0], a[1], a[2], a[3], a[4]); break;
        case 6: ((void (*)(V, V, V, V, V, V))kernel)(a[0], a[1], a[2], a[3], a[4], a[5]); break;
        case 7: ((void (*)(V, V, V, V, V, V, V))kernel)(a[0], a[1], a[2], a[3], a[4], a[5], a[6]); break;
        default: abort();
    }
}

// Runs a kernel whose arguments are pointers.
extern "C" __global__ void emulate(void* kernel, unsigned x, unsigned y, unsigned z, unsigned threads, void** a, unsigned count) {
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    gridDim = {x, y, z};
    blockDim = {threads, 1, 1};
    block_barrier.resize(threads);
    for (unsigned i = 0; i < MAX_THREADS; i++) team_barriers[i].resize(LANES);
    auto run = [=](unsigned index) {
        threadIdx = {index, 0, 0};
        for (unsigned block = 0; block < x * y * z; block++) {
            blockIdx = {block % x, block / x % y, block / x / y};
            call(kernel, a, count);
            block_barrier.wait();
        }
    };
    if (threads == 1) return run(0);
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; i++) all.emplace_back(run, i);
    for (auto& one : all) one.join();
}
