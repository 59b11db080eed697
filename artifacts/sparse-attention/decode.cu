// Sparse attention decode (shared/dsa.py has the definition): rows fetched once, used twice, reduced on chip.
//
// A block owns one split of one token's list, for all 16 heads. It writes down the rows that the
// split lists, none for padding, and then four warps fetch and four compute.
//
//   fetch    16 bytes a lane, asynchronously, into a ring of STAGES tiles of TILE rows: nine chunks of
//            64 columns each, [TILE rows][128 bytes], the 16-byte pieces of a row swapped by its number,
//            as the matrix unit's 128-byte swizzle wants them
//   scores   Sᵀ [64 rows, 16 heads] = K Qᵀ, 36 products of 64 x 16 x 16: rows are M and heads N, so
//            that no head is padded; both operands come from shared memory (of a tile of 32 rows the
//            unit reads 64: the rest is whatever follows, and its scores are dropped)
//   weights  of a row and four heads in a thread; the maximum is agreed on through shared memory
//   output   Oᵀ [512 columns, 16 heads] += Kcᵀ Pᵀ from the same chunks, read the other way round
//
// The blocks of a cluster weigh together what they found, one CLUSTER-th of the columns each. A block sends
// every other its columns, rounded to bf16 (half the bytes on the way from block to block; they are added in
// float32, and rounded again for the output), by asynchronous stores that a barrier of the receiver
// counts in, so that nobody waits for an answer and a block may end when it has sent. Where a token has
// several clusters (GROUPS), their sums go to memory in float32, and the block that arrives last adds them.
//
// Macros: SPLITS CLUSTER TILE STAGES RESIDENT WIDTH SHARED, and TRACE

using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 HEADS = 16, CKV = 512, KPE = 64;
constexpr u32 WARPS = 4, THREADS = 32 * WARPS;          // that compute; as many fetch
constexpr u32 GROUPS = SPLITS / CLUSTER;
constexpr u32 SHARE = WIDTH / SPLITS;                   // places of the list that a block looks at
constexpr bool SHORT = SHARE <= 256;                    // a warp looks at all of it
constexpr u32 LOOKERS = SHORT ? 32 : THREADS;
constexpr u32 PLACES = SHARE < LOOKERS ? 1 : SHARE / LOOKERS;  // of the list, a thread
constexpr u32 GRANULE = SHORT || PLACES < 8 ? 8 : PLACES;      // neighbouring places that stay in one block
constexpr u32 CHUNKS = 9, VALUES = 8;                   // chunks of 64 columns; the first eight are values
constexpr u32 SWIZZLED = 128;                           // bytes of a row in a chunk
constexpr u32 SLICE = CKV / CLUSTER, SHARERS = THREADS / HEADS;  // columns of a block of the cluster, by 8 threads a head
constexpr u32 COLUMNS = SLICE / SHARERS < 8 ? 4 : 8;    // side by side in a thread, SPANS times
constexpr u32 SPANS = SLICE / SHARERS / COLUMNS;
constexpr u32 FOUND_PITCH = 2 * CKV + 16;               // bytes: eight rows start in eight different bank groups

static_assert(SPLITS % CLUSTER == 0 && WIDTH % SPLITS == 0, "whole clusters, whole shares");
static_assert(SHARE >= 8 && (SHARE % GRANULE == 0 || SHARE < GRANULE), "shares are whole granules");
static_assert(TILE == 32 || TILE == 64, "the matrix unit takes 64 rows");
static_assert(HEADS * FOUND_PITCH <= CHUNKS * HEADS * SWIZZLED, "outputs take the place of the queries");
static_assert(SPANS >= 1, "a thread weighs at least four columns");
static_assert(GROUPS == 1 || CLUSTER > 1, "the blocks of a token are clusters, or one");

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

struct Shared {
    alignas(1024) char ring[STAGES][CHUNKS][TILE][SWIZZLED];
    alignas(1024) char queries[CHUNKS][HEADS][SWIZZLED];
    alignas(1024) char weights[HEADS][SWIZZLED];
    float maxima[2][WARPS][HEADS];  // of a tile's rows, in turns; in the end of all, and the warps' sums
    alignas(16) char received[CLUSTER == 1 ? 1 : CLUSTER][HEADS][CLUSTER == 1 ? 16 : 2 * SLICE];  // this block's columns, from every block of the cluster
    float2 sums[CLUSTER][HEADS];                           // and their maxima (base 2) and sums of weights
    int rows[SHARE];
    u32 counts[WARPS];
    u32 last;
    alignas(8) u64 arrived[STAGES], freed[STAGES], asked, all_there;
};

static_assert(sizeof(Shared) <= SHARED, "the host asks for enough shared memory");

__device__ inline u32 address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

__device__ inline void wait_for(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(barrier), "r"(parity) : "memory");
}

// The same for what other blocks of the cluster have stored.
__device__ inline void wait_for_cluster(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
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

__device__ inline void cluster_arrive() {
    if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

__device__ inline void cluster_wait() {
    if (CLUSTER > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

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

// The places of the list that a block looks at: granules of it go round the splits, so that a short list
// still feeds them all.
__device__ inline int load_place(const int *indices, u32 split, u32 own) {
    return own < SHARE ? __ldg(indices + own / GRANULE * (GRANULE * SPLITS) + split * GRANULE + own % GRANULE) : -1;
}

// A short share: every warp looks at all of it, and none waits for another. Returns how many rows there are; the warp that
// fetches every fourth of them from number `fetcher` on writes its own down, in the order of the list.
__device__ inline u32 write_own_rows(Shared &shared, const int (&mine)[PLACES], u32 fetcher) {
    const u32 before_lane = (1u << threadIdx.x % 32) - 1;
    u32 total = 0;
#pragma unroll
    for (u32 nth = 0; nth < PLACES; ++nth) {
        const u32 present = __ballot_sync(0xffffffffu, mine[nth] >= 0), at = total + __popc(present & before_lane);
        if (mine[nth] >= 0 && at % WARPS == fetcher) shared.rows[at] = mine[nth];
        total += __popc(present);
    }
    __syncwarp();
    return total;
}

// A long share: the warps that compute divide it, PLACES neighbouring places a thread.
__device__ inline u32 write_rows(Shared &shared, const int (&mine)[PLACES]) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
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
    __syncthreads();
    u32 total = 0;
#pragma unroll
    for (u32 other = 0; other < WARPS; ++other) {
        before += other < warp ? shared.counts[other] : 0;
        total += shared.counts[other];
    }
#pragma unroll
    for (u32 nth = 0; nth < PLACES; ++nth)
        if (mine[nth] >= 0) shared.rows[before++] = mine[nth];
    __syncthreads();
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

// Keep the ring full: each warp fetches a quarter of each tile; sixteen rows that would all be zeros are not touched.
__device__ inline void fetch_all(Shared &shared, const char *ckv, const char *kpe, u32 count) {
    const u32 fetcher = threadIdx.x / 32 - WARPS, tiles = (count + TILE - 1) / TILE;
#pragma unroll 1
    for (u32 tile = 0; tile < tiles; ++tile) {
        const u32 slot = tile % STAGES, valid = count - tile * TILE;
        if (tile >= STAGES) wait_for(address(&shared.freed[slot]), (tile / STAGES - 1) & 1);
        fetch(shared.ring[slot], ckv, kpe, fetcher, min(TILE, valid + 15) / 16 * (16 / WARPS), valid,
              [&](u32 nth) { return (u32)shared.rows[tile * TILE + nth]; });
        count_in(shared.arrived[slot]);
    }
}
// endregion

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
// endregion

// What a thread has of a block's answer: of 16 columns and four heads, 2 (lane % 4) + {0, 1, 8, 9}.
// The eight numbers of a product are rows lane / 4 and that + 8 by these heads: [head / 8][row / 8][head % 2].
struct Own {
    float found[VALUES][8];
    float maximum[4] = {NOTHING, NOTHING, NOTHING, NOTHING}, sum[4] = {0.f, 0.f, 0.f, 0.f};
};

constexpr u32 HEAD[8] = {0, 1, 0, 1, 2, 3, 2, 3};  // which of a thread's four heads a number belongs to

// region: weights
__device__ inline void weigh_tile(Own &own, Shared &shared, float (&logits)[8], u32 tile, u32 count, float scale) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp * 16 + lane / 4;
    const u32 valid = min(count - tile * TILE, TILE);
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

__device__ inline void attend(Own &own, Shared &shared, u32 count, float scale TRACED) {
    const u32 tiles = (count + TILE - 1) / TILE;
    wait_for(address(&shared.asked), 0);
    const u64 queries = operand(shared.queries), weights = operand(shared.weights);
    for (u32 tile = 0; tile < tiles; ++tile) {
        const u32 slot = tile % STAGES, valid = count - tile * TILE;
        const u64 rows = operand(shared.ring[slot]);
        wait_for(address(&shared.arrived[slot]), tile / STAGES & 1);
        if (tile == 0) MARK(1);
        show_matrix_unit();
        float logits[8] = {};
        begin_products();
#pragma unroll 3
        for (u32 chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
            for (u32 step = 0; step < 4; ++step)
                multiply<0>(logits, rows + (chunk * TILE * SWIZZLED + step * 32) / 16,
                            queries + (chunk * HEADS * SWIZZLED + step * 32) / 16);
        end_products();
        if (tile == 0) MARK(2);
        weigh_tile(own, shared, logits, tile, count, scale);
        if (tile == 0) MARK(3);
        begin_products();
        const u32 steps = min(TILE, valid + 15) / 16;
#pragma unroll 1
        for (u32 step = 0; step < steps; ++step)
#pragma unroll
            for (u32 chunk = 0; chunk < VALUES; ++chunk)
                multiply<1>(own.found[chunk], rows + (chunk * TILE + step * 16) * SWIZZLED / 16, weights + step * 32 / 16);
        end_products();
        if (tile == 0) MARK(4);
        if (threadIdx.x % 32 == 0) arrive(address(&shared.freed[slot]));
    }
}

__device__ inline u32 in_block(u32 own_address, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own_address), "r"(rank));
    return there;
}

// What a thread has of the answer of a cluster, or of a token.
struct Weighed {
    float columns[SPANS][COLUMNS] = {};
    float2 sums = {NOTHING, 0.f};
};

// region: send
// Put the outputs of this block side by side where the queries were, which are no longer needed, as bf16 [16][512 + 8], multiplied by `by`; and what
// each warp has of the sums.
__device__ inline void lay_out(Own &own, Shared &shared, const float (&by)[4]) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 head = lane / 16 * 8 + lane % 8, column = warp * 16 + lane / 8 % 2 * 8;
    const u32 to = address(shared.queries) + head * FOUND_PITCH + column * 2;
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk) {
        float(&found)[8] = own.found[chunk];
        if (CLUSTER == 1)
#pragma unroll
            for (u32 nth = 0; nth < 8; ++nth) found[nth] *= by[HEAD[nth]];
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(to + chunk * 128), "r"(pair(found[0], found[1])), "r"(pair(found[2], found[3])),
                        "r"(pair(found[4], found[5])), "r"(pair(found[6], found[7])) : "memory");
    }
}

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

__device__ inline float2 sums_of(const Shared &shared, u32 head) {
    float sum = 0.f;
#pragma unroll
    for (u32 nth = 0; nth < WARPS; ++nth) sum += shared.maxima[1][nth][head];
    return {shared.maxima[0][0][head], sum};
}

// Send every block of the cluster its columns of this block's outputs, and the sums.
__device__ inline void send(const Shared &shared, u32 rank) {
    const auto barrier_of = [&](u32 other) { return in_block(address(&shared.all_there), other); };
    constexpr u32 PIECES = 2 * SLICE / 16, ALL = CLUSTER * PIECES;  // of 16 bytes, of a head: for a block, for all
    const u32 piece = threadIdx.x % ALL, other = piece / PIECES, barrier = barrier_of(other);
    const u32 to = in_block(address(&shared.received[rank][0][piece % PIECES * 16]), other);
    const char *const from = shared.queries[0][0] + piece * 16;
#pragma unroll
    for (u32 head = threadIdx.x / ALL; head < HEADS; head += THREADS / ALL) {
        const uint4 words = *(const uint4 *)(from + head * FOUND_PITCH);
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                     :: "r"(to + head * 2 * SLICE), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "r"(barrier)
                     : "memory");
    }
    const float2 sums = sums_of(shared, threadIdx.x % HEADS);
#pragma unroll
    for (u32 pair = threadIdx.x; pair < CLUSTER * HEADS; pair += THREADS)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
                     :: "r"(in_block(address(&shared.sums[rank][pair % HEADS]), pair / HEADS)), "r"(__float_as_uint(sums.x)),
                        "r"(__float_as_uint(sums.y)), "r"(barrier_of(pair / HEADS)) : "memory");
}
// endregion

// region: cluster
// Weigh what the blocks of the cluster found: columns of one head.
__device__ inline void weigh_cluster(Weighed &all, const Shared &shared, u32 head, u32 first) {
    float2 each[CLUSTER];
#pragma unroll
    for (u32 nth = 0; nth < CLUSTER; ++nth) each[nth] = shared.sums[nth][head];
#pragma unroll
    for (u32 nth = 0; nth < CLUSTER; ++nth) all.sums.x = fmaxf(all.sums.x, each[nth].x);
#pragma unroll
    for (u32 nth = 0; nth < CLUSTER; ++nth) {
        const float weight = power(each[nth].x - zero_if_empty(all.sums.x));
        all.sums.y += each[nth].y * weight;
#pragma unroll
        for (u32 span = 0; span < SPANS; ++span) {
            const u32 *const words = (const u32 *)(shared.received[nth][head] + (first + span * SHARERS * COLUMNS) * 2);
#pragma unroll
            for (u32 column = 0; column < COLUMNS; ++column) {
                const u32 word = words[column / 2];
                all.columns[span][column] += weight * __uint_as_float(column % 2 ? word & 0xffff0000u : word << 16);
            }
        }
    }
}
// endregion

// Leave this cluster's columns in memory; in the block that comes last, add those of all clusters. Says whether it does.
__device__ inline bool weigh_groups(Weighed &all, Shared &shared, float *partial, float2 *sums, u32 *arrivals, u32 group) {
    constexpr u32 PITCH = HEADS * CKV, SUMS = CLUSTER * HEADS, QUADS = COLUMNS / 4;
#pragma unroll
    for (u32 span = 0; span < SPANS; ++span)
#pragma unroll
        for (u32 quad = 0; quad < QUADS; ++quad)
            __stcg((float4 *)(partial + group * PITCH + span * SHARERS * COLUMNS + quad * 4), *(float4 *)&all.columns[span][quad * 4]);
    if (threadIdx.x % SHARERS == 0) __stcg(sums + group * SUMS, all.sums);
    meet();
    if (threadIdx.x == 0) {
        __threadfence();
        // The counter starts again by itself: atomicInc wraps to 0 after the last one.
        shared.last = atomicInc(arrivals, GROUPS - 1) == GROUPS - 1;
        __threadfence();
    }
    meet();
    if (!shared.last) return false;
    float2 each[GROUPS];
    all = Weighed();
#pragma unroll
    for (u32 nth = 0; nth < GROUPS; ++nth) each[nth] = __ldcg(sums + nth * SUMS);
#pragma unroll
    for (u32 nth = 0; nth < GROUPS; ++nth) all.sums.x = fmaxf(all.sums.x, each[nth].x);
#pragma unroll
    for (u32 nth = 0; nth < GROUPS; ++nth) {
        const float weight = power(each[nth].x - zero_if_empty(all.sums.x));
        all.sums.y += each[nth].y * weight;
#pragma unroll
        for (u32 span = 0; span < SPANS; ++span)
#pragma unroll
            for (u32 quad = 0; quad < QUADS; ++quad) {
                const float4 some = __ldcg((float4 *)(partial + nth * PITCH + span * SHARERS * COLUMNS + quad * 4));
                float(&to)[COLUMNS] = all.columns[span];
                to[quad * 4] += some.x * weight, to[quad * 4 + 1] += some.y * weight;
                to[quad * 4 + 2] += some.z * weight, to[quad * 4 + 3] += some.w * weight;
            }
    }
    return true;
}

__device__ inline void store_lse(float *lse, float2 sums) {
    *lse = sums.y > 0.f ? sums.x + __log2f(sums.y) : NOTHING;
}

__device__ inline void store_answer(const Weighed &all, char *output) {
    const float by = all.sums.y > 0.f ? __frcp_rn(all.sums.y) : 0.f;
#pragma unroll
    for (u32 span = 0; span < SPANS; ++span)
#pragma unroll
        for (u32 quad = 0; quad < COLUMNS; quad += 4) {
            const float(&from)[COLUMNS] = all.columns[span];
            *(uint2 *)(output + (span * SHARERS * COLUMNS + quad) * 2)
                = {pair(from[quad] * by, from[quad + 1] * by), pair(from[quad + 2] * by, from[quad + 3] * by)};
        }
}

extern "C" __global__ void __launch_bounds__(2 * THREADS, RESIDENT)
decode(const char *q_nope, const char *q_pe, const char *ckv, const char *kpe, const int *indices, float scale,
       void *output, float *lse, float *partial, float2 *partial_sums, u32 *arrivals
#ifdef TRACE
       , u32 *trace
#endif
) {
#ifdef TRACE
    const u32 started = (u32)clock64();
#endif
    extern __shared__ __align__(1024) char memory[];
    Shared &shared = *(Shared *)memory;
    const u32 token = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS, warp = uniform(threadIdx.x / 32);
    const u32 rank = split % CLUSTER, group = split / CLUSTER;
    int mine[PLACES];
#pragma unroll
    for (u32 nth = 0; nth < PLACES; ++nth) {
        const u32 own = SHORT ? nth * 32 + threadIdx.x % 32 : threadIdx.x * PLACES + nth;
        mine[nth] = SHORT || warp < WARPS ? load_place(indices + (u64)token * WIDTH, split, own) : -1;
    }
    if (threadIdx.x == 0) {
        const auto start = [](u64 &barrier, u32 count) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(&barrier)), "r"(count) : "memory");
        };
#pragma unroll
        for (u32 slot = 0; slot < STAGES; ++slot) start(shared.arrived[slot], THREADS), start(shared.freed[slot], WARPS);
        start(shared.asked, THREADS);
        start(shared.all_there, 1);
        if (CLUSTER > 1)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(address(&shared.all_there)), "r"(HEADS * SLICE * CLUSTER * 2 + CLUSTER * HEADS * 8) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        if ((address(memory) & 1023) != 0) __trap();  // the swizzle is of addresses
        if (GROUPS > 1)  // the counter is far away: ask for it before it is needed
            asm volatile("prefetch.global.L2 [%0];" :: "l"(arrivals + token * CLUSTER + rank));
    } else if (warp >= WARPS) {
        fetch(shared.queries, q_nope + (u64)token * HEADS * 2 * CKV, q_pe + (u64)token * HEADS * 2 * KPE,
              warp - WARPS, HEADS / WARPS, HEADS, [](u32 head) { return head; });
    }
    __syncwarp();
    cluster_arrive();  // a block is sent nothing before it has started
    __syncthreads();   // the barriers are there
    const u32 count = uniform(SHORT ? write_own_rows(shared, mine, warp - WARPS) : write_rows(shared, mine));
    if (warp >= WARPS) {
        count_in(shared.asked);
        fetch_all(shared, ckv, kpe, count);
        cluster_wait();
        return;
    }
    Own own;
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk)
#pragma unroll
        for (u32 nth = 0; nth < 8; ++nth) own.found[chunk][nth] = 0.f;
    MARK(0);
    if (count > 0) attend(own, shared, count, scale TRACING);
    else wait_for(address(&shared.asked), 0);  // nothing is under way when a block ends
    MARK(5);
    lay_out_sums(own, shared);
    const u32 head = threadIdx.x / SHARERS, own_first = threadIdx.x % SHARERS * COLUMNS;
    const u64 place = (u64)token * HEADS + head, row = (u64)token * GROUPS * HEADS + head;
    if (CLUSTER == 1) {
        float by[4];
        meet();  // the sums are there
#pragma unroll
        for (u32 nth = 0; nth < 4; ++nth) {
            const float2 sums = sums_of(shared, threadIdx.x % 4 * 2 + nth / 2 * 8 + nth % 2);
            by[nth] = sums.y > 0.f ? __frcp_rn(sums.y) : 0.f;
        }
        lay_out(own, shared, by);
        meet();
        for (u32 piece = threadIdx.x; piece < HEADS * 2 * CKV / 16; piece += THREADS)
            *((uint4 *)output + (u64)token * HEADS * 2 * CKV / 16 + piece)
                = *(const uint4 *)(shared.queries[0][0] + piece / 64 * FOUND_PITCH + piece % 64 * 16);
        if (own_first == 0) store_lse(lse + place, sums_of(shared, head));
        return;
    }
    const float unweighed[4] = {};
    lay_out(own, shared, unweighed);
    meet();
    cluster_wait();
    send(shared, rank);
    wait_for_cluster(address(&shared.all_there), 0);
    MARK(6);
    Weighed all;
    weigh_cluster(all, shared, head, own_first);
    const u32 first = rank * SLICE + own_first;
    if (GROUPS == 1 || weigh_groups(all, shared, partial + row * CKV + first,
                                    partial_sums + ((u64)token * GROUPS * CLUSTER + rank) * HEADS + head,
                                    arrivals + token * CLUSTER + rank, group)) {
        store_answer(all, (char *)output + (place * CKV + first) * 2);
        if (first == 0) store_lse(lse + place, all.sums);
    }
    MARK(7);
}
