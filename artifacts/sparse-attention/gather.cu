// Fetch the rows of a list and do nothing with them but add their bits: the time to beat.
//
// A warp fetches four rows and ends: eight lanes share a row, 16 bytes a lane and load, all nine
// loads under way before the first use. On the H200 nothing that we tried on 1152-byte rows was
// faster; the entry on what this GPU can do has the alternatives. A padding is not fetched.

using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 CKV_BYTES = 1024, KPE_BYTES = 128, THREADS = 64, LANES = 8;

__device__ inline uint4 load16(const char *from) {
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(from));
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather(const char *ckv, const char *kpe, const int *indices, u32 entries, u32 *sums) {
    const u32 entry = (blockIdx.x * THREADS + threadIdx.x) / LANES, member = threadIdx.x % LANES;
    const int row = entry < entries ? __ldg(indices + entry) : -1;
    uint4 pieces[9] = {};
    if (row >= 0) {
#pragma unroll
        for (u32 load = 0; load < 8; ++load)
            pieces[load] = load16(ckv + (u64)row * CKV_BYTES + (load * LANES + member) * 16);
        pieces[8] = load16(kpe + (u64)row * KPE_BYTES + member * 16);
    }
    u32 total = 0;
#pragma unroll
    for (u32 load = 0; load < 9; ++load)
        total += pieces[load].x + pieces[load].y + pieces[load].z + pieces[load].w;
#pragma unroll
    for (u32 distance = LANES / 2; distance > 0; distance /= 2)
        total += __shfl_xor_sync(0xffffffffu, total, distance);
    if (member == 0 && entry < entries) sums[entry] = total;
}
