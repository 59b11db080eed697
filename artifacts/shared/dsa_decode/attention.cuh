// What the two kernels of sparse attention share: rows on their way into shared memory, matrix products,
// weights, and what a thread has of an answer. decode.cu says how they fit together.
//
// `Shared` is the kernel's own; these functions use its ring, queries, weights, maxima, rows and counts.
//
// Macros: TILE WIDTH, and TRACE

#pragma once

using u32 = unsigned int;
using u64 = unsigned long long;


constexpr u32 HEADS = 16, CKV = 512, KPE = 64;
constexpr u32 WARPS = 4, THREADS = 32 * WARPS;          // that compute; as many fetch
constexpr u32 CHUNKS = 9, VALUES = 8;                   // chunks of 64 columns; the first eight are values
constexpr u32 SWIZZLED = 128;                           // bytes of a row in a chunk
constexpr u32 FOUND_PITCH = 2 * CKV + 16;               // bytes: eight rows start in eight different bank groups

static_assert(TILE == 32 || TILE == 64, "the matrix unit takes 64 rows");
static_assert(HEADS * FOUND_PITCH <= CHUNKS * HEADS * SWIZZLED, "outputs take the place of the queries");

#define NOTHING (-__int_as_float(0x7f800000))  // the maximum of no logits: minus infinity

// With TRACE a block writes down in which cycle, counted from its start, its first thread passed each mark.
#ifdef TRACE
constexpr u32 MARKS = 8;
#define TRACED , u32 *trace, u32 started
#define TRACING , trace, started
#define MARK(nth) \
    if (threadIdx.x == 0) trace[blockIdx.x * MARKS + nth] = (u32)clock64() - started
#else
#define TRACED
#define TRACING
#define MARK(nth)
#endif

__device__ inline u32 address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

__device__ inline void wait_for(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(barrier), "r"(parity) : "memory");
}

__device__ inline void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}

// Of a number that all lanes of a warp agree on, the compiler now knows that they do: it runs matrix
// products one by one where it cannot see that the whole warp takes the branch.
__device__ inline u32 uniform(u32 value) { return __shfl_sync(0xffffffffu, value, 0); }

// A barrier of the warps that compute.
__device__ inline void meet() { asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory"); }

// Shared memory that was written by stores or copies of threads, before the matrix unit reads it.
__device__ inline void show_matrix_unit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline float power(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline u32 pair(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline float zero_if_empty(float maximum) { return maximum == NOTHING ? 0.f : maximum; }

// Write down the rows of a list in its order: four warps divide it, PLACES neighbouring places a thread. Returns how many
// there are. Every thread of a barrier takes part; a warp beyond the four has no places.
template <class Shared, u32 PLACES, class Everyone>
__device__ inline u32 write_rows(Shared &shared, const int (&mine)[PLACES], u32 warp, Everyone meet_everyone) {
    const u32 lane = threadIdx.x % 32;
    u32 valid = 0;
#pragma unroll
    for (u32 nth = 0; nth < PLACES; ++nth) valid += mine[nth] >= 0;
    u32 before = valid;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 other = __shfl_up_sync(0xffffffffu, before, distance);
        before += lane >= distance ? other : 0;
    }
    if (lane == 31 && warp < WARPS) shared.counts[warp] = before;
    before -= valid;
    meet_everyone();
    u32 total = 0;
#pragma unroll
    for (u32 other = 0; other < WARPS; ++other) {
        before += other < warp ? shared.counts[other] : 0;
        total += shared.counts[other];
    }
#pragma unroll
    for (u32 nth = 0; nth < PLACES; ++nth)
        if (mine[nth] >= 0) shared.rows[before++] = mine[nth];
    meet_everyone();
    return total;
}

// region: fetch
// Ask for every fourth of the rows of a tile, or of the queries, from number `first` on: `count` of them, whole fours and at
// most 16. Rows from number `valid` on are zeros. `row_of(n)` says which row of the caches the n-th is.
template <u32 ROWS, class RowOf>
__device__ inline void fetch(char (*chunks)[ROWS][SWIZZLED], const char *ckv, const char *kpe, u32 first, u32 count, u32 valid,
                             RowOf row_of) {
    const u32 lane = threadIdx.x % 32, base = address(chunks) + lane / 8 * ROWS * SWIZZLED;
    const u32 own = first + lane % 16 * WARPS, mine = lane % 16 < count && own < valid ? row_of(own) : 0;
    const auto copy = [&](u32 to, u32 row, const char *from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to + row * SWIZZLED + (lane % 8 ^ row % 8) * 16), "l"(from), "r"(row < valid ? 16u : 0u) : "memory");
    };
#pragma unroll 1
    for (u32 four = 0; four < count; four += 4) {
#pragma unroll
        for (u32 nth = 0; nth < 4; ++nth) {
            const u32 row = first + (four + nth) * WARPS;
            const char *from = ckv + (u64)__shfl_sync(0xffffffffu, mine, four + nth) * 2 * CKV + lane * 16;
            copy(base, row, from);
            copy(base + 4 * ROWS * SWIZZLED, row, from + CKV);
        }
        const u32 tail = four + lane / 8;
        copy(address(chunks[CHUNKS - 1]), first + tail * WARPS,
             kpe + (u64)__shfl_sync(0xffffffffu, mine, tail) * 2 * KPE + lane % 8 * 16);
    }
}

__device__ inline void count_in(u64 &barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(address(&barrier)) : "memory");
}
// endregion

// What a thread has of a block's answer: of 16 columns and four heads, 2 (lane % 4) + {0, 1, 8, 9}.
// The eight numbers of a product are rows lane / 4 and that + 8 by these heads: [head / 8][row / 8][head % 2].
struct Own {
    float found[VALUES][8];
    float maximum[4] = {NOTHING, NOTHING, NOTHING, NOTHING}, sum[4] = {0.f, 0.f, 0.f, 0.f};
};

constexpr u32 HEAD[8] = {0, 1, 0, 1, 2, 3, 2, 3};  // which of a thread's four heads a number belongs to

// region: products
// Where the matrix unit finds an operand: rows of 128 swizzled bytes, eight of them in 1024.
__device__ inline u64 operand(const void *pointer) {
    return (u64)(address(pointer) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// sum [64, 16] += a b for 16 products each; FLIPPED: `a` lies with its columns as rows.
template <u32 FLIPPED>
__device__ inline void multiply(float (&sum)[8], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, %10, 0;"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
                   "+f"(sum[7])
                 : "l"(a), "l"(b), "n"(FLIPPED));
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void end_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ inline void score(float (&logits)[8], u64 rows, u64 queries) {
    begin_products();
#pragma unroll 3
    for (u32 chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
        for (u32 step = 0; step < 4; ++step)
            multiply<0>(logits, rows + (chunk * TILE * SWIZZLED + step * 32) / 16,
                        queries + (chunk * HEADS * SWIZZLED + step * 32) / 16);
    end_products();
}

__device__ inline void add_values(Own &own, u64 rows, u64 weights, u32 valid) {
    begin_products();
    const u32 steps = min(TILE, valid + 15) / 16;
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step)
#pragma unroll
        for (u32 chunk = 0; chunk < VALUES; ++chunk)
            multiply<1>(own.found[chunk], rows + (chunk * TILE + step * 16) * SWIZZLED / 16, weights + step * 32 / 16);
    end_products();
}
// endregion

// region: weights
// `tile` counts from the first of a list, `valid` of its rows are there: one at least.
template <class Shared>
__device__ inline void weigh_tile(Own &own, Shared &shared, float (&logits)[8], u32 tile, u32 valid, float scale) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp * 16 + lane / 4;
    float higher[4];
#pragma unroll
    for (u32 nth = 0; nth < 8; ++nth) logits[nth] = row + nth / 2 % 2 * 8 < valid ? logits[nth] * scale : NOTHING;
#pragma unroll
    for (u32 head = 0; head < 4; ++head)
        higher[head] = fmaxf(logits[head / 2 * 4 + head % 2], logits[head / 2 * 4 + head % 2 + 2]);
#pragma unroll
    for (u32 distance = 4; distance < 32; distance *= 2)
#pragma unroll
        for (u32 head = 0; head < 4; ++head)
            higher[head] = fmaxf(higher[head], __shfl_xor_sync(0xffffffffu, higher[head], distance));
    float *const maxima = &shared.maxima[tile % 2][0][lane % 4 * 2];
    if (lane < 4) {
        *(float2 *)(maxima + warp * HEADS) = {higher[0], higher[1]};
        *(float2 *)(maxima + warp * HEADS + 8) = {higher[2], higher[3]};
    }
    meet();
#pragma unroll
    for (u32 other = 0; other < WARPS; ++other) {
        const float2 low = *(float2 *)(maxima + other * HEADS), high = *(float2 *)(maxima + other * HEADS + 8);
        higher[0] = fmaxf(higher[0], low.x), higher[1] = fmaxf(higher[1], low.y);
        higher[2] = fmaxf(higher[2], high.x), higher[3] = fmaxf(higher[3], high.y);
    }
    float shrink[4];
    bool same = true;
#pragma unroll
    for (u32 head = 0; head < 4; ++head) {
        higher[head] = fmaxf(higher[head], own.maximum[head]);
        shrink[head] = power(own.maximum[head] - higher[head]);  // a tile has a row, so its maximum is a number
        same = same && own.maximum[head] == higher[head];
        own.maximum[head] = higher[head];
        own.sum[head] *= shrink[head];
    }
#pragma unroll
    for (u32 nth = 0; nth < 8; ++nth) {
        logits[nth] = power(logits[nth] - higher[HEAD[nth]]);
        own.sum[HEAD[nth]] += logits[nth];
    }
    // Transposed on the way: a head's 64 weights lie side by side, swizzled like the rows.
    const u32 head = lane / 16 * 8 + lane % 8, piece = warp * 2 + lane / 8 % 2;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(address(shared.weights[head]) + (piece ^ head % 8) * 16), "r"(pair(logits[0], logits[1])),
                    "r"(pair(logits[2], logits[3])), "r"(pair(logits[4], logits[5])), "r"(pair(logits[6], logits[7])) : "memory");
    show_matrix_unit();
    if (tile > 0 && !__all_sync(0xffffffffu, same)) {
#pragma unroll
        for (u32 chunk = 0; chunk < VALUES; ++chunk)
#pragma unroll
            for (u32 nth = 0; nth < 8; ++nth) own.found[chunk][nth] *= shrink[HEAD[nth]];
    }
    meet();
}
// endregion

// Put the outputs of this block side by side where the queries were, which are no longer needed, as bf16 [16][512 + 8];
// WEIGHED: multiplied by `by`.
template <bool WEIGHED>
__device__ inline void lay_out(Own &own, const void *place, const float (&by)[4]) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 head = lane / 16 * 8 + lane % 8, column = warp * 16 + lane / 8 % 2 * 8;
    const u32 to = address(place) + head * FOUND_PITCH + column * 2;
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk) {
        float(&found)[8] = own.found[chunk];
        if (WEIGHED)
#pragma unroll
            for (u32 nth = 0; nth < 8; ++nth) found[nth] *= by[HEAD[nth]];
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(to + chunk * 128), "r"(pair(found[0], found[1])), "r"(pair(found[2], found[3])),
                        "r"(pair(found[4], found[5])), "r"(pair(found[6], found[7])) : "memory");
    }
}

// What each warp has of the sums, and the maxima.
template <class Shared>
__device__ inline void lay_out_sums(Own &own, Shared &shared) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (u32 distance = 4; distance < 32; distance *= 2)
#pragma unroll
        for (u32 head = 0; head < 4; ++head) own.sum[head] += __shfl_xor_sync(0xffffffffu, own.sum[head], distance);
    if (lane < 4) {
        float *const sums = &shared.maxima[1][warp][lane * 2], *const maxima = &shared.maxima[0][0][lane * 2];
        *(float2 *)sums = {own.sum[0], own.sum[1]}, *(float2 *)(sums + 8) = {own.sum[2], own.sum[3]};
        if (warp == 0) {
            *(float2 *)maxima = {own.maximum[0], own.maximum[1]};
            *(float2 *)(maxima + 8) = {own.maximum[2], own.maximum[3]};
        }
    }
}

template <class Shared>
__device__ inline float2 sums_of(const Shared &shared, u32 head) {
    float sum = 0.f;
#pragma unroll
    for (u32 nth = 0; nth < WARPS; ++nth) sum += shared.maxima[1][nth][head];
    return {shared.maxima[0][0][head], sum};
}

__device__ inline void store_lse(float *lse, float2 sums) {
    *lse = sums.y == 0.f ? NOTHING : sums.x + __log2f(sums.y);  // not finite where a logit was not
}

