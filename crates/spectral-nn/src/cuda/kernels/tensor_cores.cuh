// Hopper's `wgmma`: asynchronous products of a warpgroup with both operands in shared memory, as lines of 64 or 128 bytes with the
// swizzle of that width: in every group of eight lines, 16-byte chunks are permuted by the line's number.
#if MODE == 2 && defined(WARPGROUPS)

// The matrix descriptor without its address, which is added. A matrix may begin with any line along which the groups run.
template <int LINE>
__device__ __forceinline__ constexpr u64 matrix_of_lines() {
    static_assert(LINE == 128 || LINE == 64, "bytes of a swizzled line");
    return 1ull << 16 | (u64)(8 * LINE / 16) << 32 | (LINE == 128 ? 1ull : 2ull) << 62;
}
__device__ __forceinline__ u64 matrix_at(const u8* shared) { return address_of((const u32*)shared) >> 4; }

// Where a 16-byte chunk of a line lies within it. Line 0 is at a multiple of 1024 bytes.
template <int LINE>
__device__ __forceinline__ int swizzled(int line, int sixteen) {
    return (LINE == 128 ? sixteen ^ line % 8 : sixteen ^ line / 2 % 4) * 16;
}

#ifndef HOST_EMULATION
// d = a b, or d += a b: 64 rows of a times 16 of the reduction times all columns of b; a lane has the same outputs of every 8 columns as with
// `multiply`, its warp 16 of the rows. The lines of a matrix are its rows (columns, for b), or TRANSPOSEd, the reduction's. Sums
// may be read after `end_products`.
template <bool TRANSPOSE_A, bool TRANSPOSE_B, bool ADD>
__device__ __forceinline__ void multiply_warpgroup(float (&d)[16], u64 a, u64 b) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %20, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "}, %16, %17, add, 1, 1, %18, %19;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "n"((int)TRANSPOSE_A), "n"((int)TRANSPOSE_B), "n"((int)ADD));
}
template <bool TRANSPOSE_A, bool TRANSPOSE_B, bool ADD>
__device__ __forceinline__ void multiply_warpgroup(float (&d)[32], u64 a, u64 b) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %36, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31"
        "}, %32, %33, add, 1, 1, %34, %35;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "n"((int)TRANSPOSE_A), "n"((int)TRANSPOSE_B), "n"((int)ADD));
}
template <bool TRANSPOSE_A, bool TRANSPOSE_B, bool ADD>
__device__ __forceinline__ void multiply_warpgroup(float (&d)[64], u64 a, u64 b) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %68, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"
        "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,"
        "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "}, %64, %65, add, 1, 1, %66, %67;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),
          "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
          "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "n"((int)TRANSPOSE_A), "n"((int)TRANSPOSE_B), "n"((int)ADD));
}

__device__ __forceinline__ void begin_products() {
    __syncwarp();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void start_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() {
    __syncwarp();
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Keeps the compiler from moving accesses to the accumulators across this point.
template <int N>
__device__ __forceinline__ void hold(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
// Hides from the compiler that this is the same descriptor: it would keep everything derived from it in registers.
__device__ __forceinline__ u64 anew(u64 matrix) {
    asm volatile("" : "+l"(matrix));
    return matrix;
}

// Makes this thread's writes to shared memory visible to the tensor cores (the asynchronous proxy).
__device__ __forceinline__ void show_to_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The number of the thread's warpgroup, in a form that the compiler knows to be uniform in a warp.
__device__ __forceinline__ int warpgroup() { return __shfl_sync(~0u, threadIdx.x / 128, 0); }
#endif

// The start of shared memory, aligned for the swizzle; lines are counted from here.
__device__ __forceinline__ u8* lines_start() {
    return (u8*)direct_shared + (1024 - address_of(direct_shared) % 1024) % 1024;
}
#endif
