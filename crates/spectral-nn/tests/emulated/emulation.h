// A device on the CPU, for the kernels by warpgroups: stands before their text. A block's threads are threads of the host with
// real barriers, and blocks run one after the other. Shared memory starts out as NaNs.

#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define HOST_EMULATION
#define MODE 2
#define WARPGROUPS
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
struct uint2 {
    u32 x, y;
};
struct __align__(16) uint4 {
    u32 x, y, z, w;
};
struct __align__(8) float2 {
    float x, y;
};
static uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
static uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
static float2 make_float2(float x, float y) { return {x, y}; }

static u32 __float_as_uint(float value) {
    u32 bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static float __uint_as_float(u32 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static u32 __byte_perm(u32 low, u32 high, u32 selector) {
    const u64 both = (u64)high << 32 | low;
    u32 result = 0;
    for (int i = 0; i < 4; i++) result |= (u32)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}

struct Place {
    unsigned x, y, z;
};
static thread_local Place threadIdx;
static Place blockIdx, gridDim;

class Barrier {
    std::mutex mutex;
    std::condition_variable changed;
    unsigned waiting = 0, generation = 0;

public:
    unsigned size = 1;
    void wait() {
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
static Barrier block_barrier;
static void __syncthreads() { block_barrier.wait(); }

// What kernels of other files name; none of it is called.
static void __threadfence() { abort(); }
template <class T>
static T __ldg(const T*) {
    abort();
}
template <class T, class U>
static T atomicAdd(T*, U) {
    abort();
}
static void multiply(float*, const u32*, const u32*) { abort(); }
static void matrices(u32*, u32) { abort(); }
static void transposed_matrices(u32*, u32) { abort(); }

static unsigned short bf16_bits(float x) {
    const u32 bits = __float_as_uint(x);
    return (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
static u32 pack(float low, float high) { return bf16_bits(low) | (u32)bf16_bits(high) << 16; }

// Shared memory, which need not begin where lines may.
static u8 arena[256 * 1024] __attribute__((aligned(1024)));
static u32* const direct_shared = (u32*)(arena + 48);
static u32 address_of(const u32* shared) { return (u32)((const u8*)shared - arena); }
// Copies beside what a thread does next are made when they are waited for; until then nobody sees what was there before either.
struct Copy {
    u32* to;
    const void* from;
    bool there;
};
static thread_local std::vector<Copy> begun;
static thread_local std::vector<std::vector<Copy>> under_way;
static void copy16_if(bool there, u32* to, const void* from) {
    if ((size_t)to % 16 != 0 || (there && (size_t)from % 16 != 0)) abort();
    if ((u8*)to < arena || (u8*)to + 16 > arena + sizeof arena) abort();
    memset(to, 0xFF, 16);
    begun.push_back({to, from, there});
}
static void copy16(u32* to, const void* from) { copy16_if(true, to, from); }
static void commit_copies() {
    under_way.push_back(begun);
    begun.clear();
}
template <int LEFT>
static void wait_for_copies() {
    while (under_way.size() > LEFT) {
        for (const Copy& copy : under_way.front()) {
            if (copy.there)
                memcpy(copy.to, copy.from, 16);
            else
                memset(copy.to, 0, 16);
        }
        under_way.erase(under_way.begin());
    }
}
// A block must not end while copies are on their way into its memory.
static void end_copies() {
    for (const auto& group : under_way)
        if (!group.empty()) abort();
    if (!begun.empty()) abort();
}

// The tensor cores: a number of a matrix, by its line and its place within the line. The swizzle is one of addresses.
static float number(u64 matrix, int line, int place) {
    const u32 start = (u32)(matrix & 0x3FFF) << 4, group = (u32)(matrix >> 32 & 0x3FFF) << 4;
    const bool wide = matrix >> 62 == 1;
    u32 at = start + line % 8 * (wide ? 128 : 64) + line / 8 * group + 2 * place;
    at ^= (at >> 7 & (wide ? 7 : 3)) << 4;
    return __uint_as_float((u32)(arena[at] | arena[at + 1] << 8) << 16);
}
template <bool TRANSPOSE_A, bool TRANSPOSE_B, bool ADD, int SUMS>
static void multiply_warpgroup(float (&d)[SUMS], u64 a, u64 b) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    float left[2][16];
    if (!ADD)
        for (float& sum : d) sum = 0.0f;
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 16; k++)
            left[h][k] = TRANSPOSE_A ? number(a, k, row + 8 * h) : number(a, row + 8 * h, k);
    for (int j = 0; j < SUMS / 4; j++)
        for (int q = 0; q < 2; q++)
            for (int k = 0, n = 8 * j + lane % 4 * 2 + q; k < 16; k++) {
                const float right = TRANSPOSE_B ? number(b, k, n) : number(b, n, k);
                for (int h = 0; h < 2; h++) d[4 * j + 2 * h + q] += left[h][k] * right;
            }
}
static void begin_products() {}
static void start_products() {}
static void end_products() {}
static void show_to_tensor_cores() {}
template <int N>
static void hold(float (&)[N]) {}
static u64 anew(u64 matrix) { return matrix; }
static int warpgroup() { return threadIdx.x / 128; }

// Runs a kernel.
template <class Kernel>
static void launch(Place grid, unsigned threads, Kernel kernel) {
    gridDim = grid;
    block_barrier.size = threads;
    for (unsigned block = 0; block < grid.x * grid.y * grid.z; block++) {
        blockIdx = {block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y};
        memset(arena, 0xFF, sizeof arena);
        std::vector<std::thread> all;
        for (unsigned i = 0; i < threads; i++)
            all.emplace_back([&kernel, i] {
                threadIdx = {i, 0, 0};
                kernel();
                end_copies();
            });
        for (auto& one : all) one.join();
    }
}
