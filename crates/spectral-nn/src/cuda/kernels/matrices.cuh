// `ldmatrix` and `cp.async`: what convolutions and products in bf16 do with shared memory. Addresses are bytes within it.
#if MODE == 2 && !defined(HOST_EMULATION)
extern __shared__ __align__(16) u32 direct_shared[];

__device__ __forceinline__ u32 address_of(const u32* shared) { return (u32)__cvta_generic_to_shared(shared); }

// Four matrices of 8 x 8 numbers: lanes 8 i .. 8 i + 8 name the lines (16 bytes each) of matrix i, and lane l gets numbers
// (l / 4, 2 (l % 4)) and the next of every matrix; transposed: numbers (2 (l % 4), l / 4) and the one below.
__device__ __forceinline__ void matrices(u32* to, u32 line) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(line)
                 : "memory");
}
__device__ __forceinline__ void transposed_matrices(u32* to, u32 line) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(line)
                 : "memory");
}

// Copies 16 bytes into shared memory, asynchronously.
__device__ __forceinline__ void copy16(u32* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address_of(to)), "l"(from) : "memory");
}
// The same, or zeros.
__device__ __forceinline__ void copy16_if(bool there, u32* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address_of(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all copies but the latest `LEFT` groups.
template <int LEFT>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
#endif
