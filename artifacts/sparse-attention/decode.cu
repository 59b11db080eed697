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
// What a block found stays in its shared memory, as bf16 (other blocks read it at some 14 bytes a cycle,
// so half the bytes are half the time); the blocks of a cluster weigh it together in float32, one
// CLUSTER-th of the columns each. Where a token has several clusters (GROUPS), their sums go to memory in
// float32, and the block that arrives last adds them.
//
// Macros: SPLITS CLUSTER TILE STAGES RESIDENT WIDTH SHARED

using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 HEADS = 16, CKV = 512, KPE = 64;
constexpr u32 WARPS = 4, THREADS = 32 * WARPS;          // that compute; as many fetch
constexpr u32 GROUPS = SPLITS / CLUSTER;
constexpr u32 SHARE = WIDTH / SPLITS;                   // places of the list that a block looks at
constexpr u32 PLACES = SHARE < THREADS ? 1 : SHARE / THREADS;  // of the list, a thread
constexpr u32 GRANULE = PLACES < 8 ? 8 : PLACES;        // neighbouring places that stay in one block
constexpr u32 CHUNKS = 9, VALUES = 8;                   // chunks of 64 columns; the first eight are values
constexpr u32 SWIZZLED = 128;                           // bytes of a row in a chunk
constexpr u32 SLICE = CKV / CLUSTER, SHARERS = THREADS / HEADS;  // columns of a block of the cluster, by 8 threads a head
constexpr u32 COLUMNS = SLICE / SHARERS < 8 ? 4 : 8;    // side by side in a thread, SPANS times
constexpr u32 SPANS = SLICE / SHARERS / COLUMNS;
constexpr u32 FOUND_PITCH = 2 * CKV + 16;               // bytes: eight rows start in eight different bank groups

static_assert(SPLITS % CLUSTER == 0 && WIDTH % SPLITS == 0, "whole clusters, whole shares");
static_assert(SHARE >= 8 && (SHARE % GRANULE == 0 || SHARE < GRANULE), "shares are whole granules");
static_assert(TILE == 32 || TILE == 64, "the matrix unit takes 64 rows");
static_assert(SPANS >= 1, "a thread weighs at least four columns");

#define NOTHING (-__int_as_float(0x7f800000))  // the maximum of no logits: minus infinity

struct Shared {
    alignas(1024) char ring[STAGES][CHUNKS][TILE][SWIZZLED];
    alignas(1024) char queries[CHUNKS][HEADS][SWIZZLED];
    alignas(1024) char weights[HEADS][SWIZZLED];
    float maxima[2][WARPS][HEADS];
    float2 sums[CLUSTER][HEADS];  // maximum (base 2) and sum of weights of every block of the cluster
    float partial_sums[WARPS][HEADS];
    int rows[SHARE];
    u32 counts[WARPS];
    u32 last;
    alignas(8) u64 arrived[STAGES], freed[STAGES], asked;
};

static_assert(sizeof(Shared) <= SHARED, "the host asks for enough shared memory");

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

// This thread's places of the list. Granules of the list go round the splits, so that a short list
// still feeds them all.
__device__ inline void load_places(int (&mine)[PLACES], const int *indices, u32 split) {
#pragma unroll
    for (u32 nth = 0; nth < PLACES; ++nth) {
        const u32 own = threadIdx.x * PLACES + nth;
        const u32 place = own / GRANULE * (GRANULE * SPLITS) + split * GRANULE + own % GRANULE;
        mine[nth] = own < SHARE ? __ldg(indices + place) : -1;
    }
}

// Write down the rows that this block attends to, in the order of the list; returns how many.
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
// Ask for COUNT rows from `first` on, of a tile or of the queries, as one warp; rows from `valid` on are zeros.
template <u32 COUNT, u32 ROWS, class RowOf>
__device__ inline void fetch(char (*chunks)[ROWS][SWIZZLED], const char *ckv, const char *kpe, u32 first, u32 valid,
                             RowOf row_of) {
    const u32 lane = threadIdx.x % 32, base = address(chunks);
    const u32 mine = first + lane % COUNT < valid ? row_of(first + lane % COUNT) : 0;
    const auto copy = [&](u32 chunk, u32 row, u32 piece, const char *from) {
        const u32 to = base + (chunk * ROWS + row) * SWIZZLED + (piece ^ row % 8) * 16;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(from), "r"(row < valid ? 16u : 0u) : "memory");
    };
#pragma unroll
    for (u32 nth = 0; nth < COUNT; ++nth) {
        const char *from = ckv + (u64)__shfl_sync(0xffffffffu, mine, nth) * 2 * CKV + lane * 16;
        copy(lane / 8, first + nth, lane % 8, from);
        copy(lane / 8 + 4, first + nth, lane % 8, from + CKV);
    }
#pragma unroll
    for (u32 nth = 0; nth < COUNT; nth += 4) {
        const u32 row = nth + lane / 8;
        copy(CHUNKS - 1, first + row, lane % 8, kpe + (u64)__shfl_sync(0xffffffffu, mine, row) * 2 * KPE + lane % 8 * 16);
    }
}

__device__ inline void count_in(u64 &barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(address(&barrier)) : "memory");
}

// Keep the ring full: a warp fetches a quarter of each tile; of 16 rows that would all be zeros none is touched.
__device__ inline void fetch_all(Shared &shared, const char *ckv, const char *kpe, u32 count) {
    constexpr u32 QUARTER = TILE / WARPS;
    const u32 first = (threadIdx.x / 32 - WARPS) * QUARTER, tiles = (count + TILE - 1) / TILE;
    for (u32 tile = 0; tile < tiles; ++tile) {
        const u32 slot = tile % STAGES, valid = count - tile * TILE;
        if (tile >= STAGES) wait_for(address(&shared.freed[slot]), (tile / STAGES - 1) & 1);
        if (first / 16 * 16 < valid)
            fetch<QUARTER>(shared.ring[slot], ckv, kpe, first, valid, [&](u32 nth) { return (u32)shared.rows[tile * TILE + nth]; });
        count_in(shared.arrived[slot]);
    }
}
// endregion

// region: products
// Where the matrix unit finds an operand: rows of 128 swizzled bytes, eight of them in 1024.
__device__ inline u64 operand(const void *pointer) {
    return (u64)(address(pointer) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// sum [64, 16] (+)= a b for 16 products each; FLIPPED: `a` lies with its columns as rows.
template <u32 FLIPPED>
__device__ inline void multiply(float (&sum)[8], u64 a, u64 b, u32 add) {
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %10, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, adds, 1, 1, %11, 0;\n}"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
                   "+f"(sum[7])
                 : "l"(a), "l"(b), "r"(add), "n"(FLIPPED));
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
        shrink[head] = power(own.maximum[head] - zero_if_empty(higher[head]));
        same = same && own.maximum[head] == higher[head];
        own.maximum[head] = higher[head];
        own.sum[head] *= shrink[head];
    }
#pragma unroll
    for (u32 nth = 0; nth < 8; ++nth) {
        logits[nth] = power(logits[nth] - zero_if_empty(higher[HEAD[nth]]));
        own.sum[HEAD[nth]] += logits[nth];
    }
    // Transposed on the way: a head's 64 weights lie side by side, swizzled like the rows.
    const u32 head = lane / 16 * 8 + lane % 8, piece = warp * 2 + lane / 8 % 2;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(address(shared.weights[head]) + (piece ^ head % 8) * 16), "r"(pair(logits[0], logits[1])),
                    "r"(pair(logits[2], logits[3])), "r"(pair(logits[4], logits[5])), "r"(pair(logits[6], logits[7])) : "memory");
    show_matrix_unit();
    if (!__all_sync(0xffffffffu, same)) {
#pragma unroll
        for (u32 chunk = 0; chunk < VALUES; ++chunk)
#pragma unroll
            for (u32 nth = 0; nth < 8; ++nth) own.found[chunk][nth] *= shrink[HEAD[nth]];
    }
    meet();
}
// endregion

__device__ inline void attend(Own &own, Shared &shared, u32 count, float scale) {
    const u32 tiles = (count + TILE - 1) / TILE;
    wait_for(address(&shared.asked), 0);
    const u64 queries = operand(shared.queries), weights = operand(shared.weights);
    for (u32 tile = 0; tile < tiles; ++tile) {
        const u32 slot = tile % STAGES, valid = count - tile * TILE;
        const u64 rows = operand(shared.ring[slot]);
        wait_for(address(&shared.arrived[slot]), tile / STAGES & 1);
        show_matrix_unit();
        float logits[8];
        begin_products();
#pragma unroll
        for (u32 step = 0; step < CHUNKS * 4; ++step)
            multiply<0>(logits, rows + (step / 4 * TILE * SWIZZLED + step % 4 * 32) / 16,
                        queries + (step / 4 * HEADS * SWIZZLED + step % 4 * 32) / 16, step > 0);
        end_products();
        weigh_tile(own, shared, logits, tile, count, scale);
        begin_products();
#pragma unroll
        for (u32 step = 0; step < TILE / 16; ++step)
            if (step * 16 < valid) {
#pragma unroll
                for (u32 chunk = 0; chunk < VALUES; ++chunk)
                    multiply<1>(own.found[chunk], rows + (chunk * TILE + step * 16) * SWIZZLED / 16, weights + step * 32 / 16, 1);
            }
        end_products();
        if (threadIdx.x % 32 == 0) arrive(address(&shared.freed[slot]));
    }
}

__device__ inline u32 in_block(u32 own_address, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own_address), "r"(rank));
    return there;
}

// COLUMNS neighbouring numbers of another block's outputs, two in a word.
struct Span {
    u32 words[COLUMNS / 2];
};

__device__ inline Span remote(u32 from) {
    Span span;
    if constexpr (COLUMNS == 8)
        asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(span.words[0]), "=r"(span.words[1]), "=r"(span.words[2]), "=r"(span.words[3]) : "r"(from) : "memory");
    else
        asm volatile("ld.shared::cluster.v2.b32 {%0, %1}, [%2];" : "=r"(span.words[0]), "=r"(span.words[1]) : "r"(from) : "memory");
    return span;
}

// What a thread has of the answer of a cluster, or of a token.
struct Weighed {
    float columns[SPANS][COLUMNS] = {};
    float2 sums = {NOTHING, 0.f};
};

// region: show
// Put the outputs of this block where the cluster can read them, bf16 [16][512 + 8], and its sums into every block.
__device__ inline void show(Own &own, Shared &shared, u32 rank) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (u32 distance = 4; distance < 32; distance *= 2)
#pragma unroll
        for (u32 head = 0; head < 4; ++head) own.sum[head] += __shfl_xor_sync(0xffffffffu, own.sum[head], distance);
    float *const sums = &shared.partial_sums[0][lane % 4 * 2], *const maxima = &shared.maxima[0][0][lane % 4 * 2];
    if (lane < 4) {
        *(float2 *)(sums + warp * HEADS) = {own.sum[0], own.sum[1]};
        *(float2 *)(sums + warp * HEADS + 8) = {own.sum[2], own.sum[3]};
        if (warp == 0) {
            *(float2 *)maxima = {own.maximum[0], own.maximum[1]};
            *(float2 *)(maxima + 8) = {own.maximum[2], own.maximum[3]};
        }
    }
    meet();
    for (u32 pair = threadIdx.x; pair < CLUSTER * HEADS; pair += THREADS) {
        const u32 other = pair / HEADS, head = pair % HEADS;
        float sum = 0.f;
#pragma unroll
        for (u32 nth = 0; nth < WARPS; ++nth) sum += shared.partial_sums[nth][head];
        asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" :: "r"(in_block(address(&shared.sums[rank][head]), other)),
                     "f"(shared.maxima[0][0][head]), "f"(sum) : "memory");
    }
    float by[4] = {};
#pragma unroll
    for (u32 nth = 0; nth < WARPS; ++nth)
#pragma unroll
        for (u32 head = 0; head < 4; ++head) by[head] += sums[nth * HEADS + head / 2 * 8 + head % 2];
#pragma unroll
    for (u32 head = 0; head < 4; ++head) by[head] = by[head] > 0.f ? __frcp_rn(by[head]) : 0.f;
    const u32 head = lane / 16 * 8 + lane % 8, column = warp * 16 + lane / 8 % 2 * 8;
    const u32 to = address(shared.ring) + head * FOUND_PITCH + column * 2;
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk) {
        const float(&found)[8] = own.found[chunk];
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(to + chunk * 128), "r"(pair(found[0] * by[0], found[1] * by[1])),
                        "r"(pair(found[2] * by[0], found[3] * by[1])), "r"(pair(found[4] * by[2], found[5] * by[3])),
                        "r"(pair(found[6] * by[2], found[7] * by[3])) : "memory");
    }
}
// endregion

// region: cluster
// Weigh what the blocks of the cluster found: columns of one head. What weighs nothing is not read.
__device__ inline void weigh_cluster(Weighed &all, const Shared &shared, u32 rank, u32 head, u32 first) {
    float weights[CLUSTER];
#pragma unroll
    for (u32 nth = 0; nth < CLUSTER; ++nth) all.sums.x = fmaxf(all.sums.x, shared.sums[nth][head].x);
#pragma unroll
    for (u32 nth = 0; nth < CLUSTER; ++nth) {  // each block starts with itself, so that all are asked alike
        const float2 sums = shared.sums[(rank + nth) % CLUSTER][head];
        weights[nth] = sums.y * power(sums.x - zero_if_empty(all.sums.x));
        all.sums.y += weights[nth];
    }
    constexpr u32 BATCH = CLUSTER < 8 ? CLUSTER : 8, WIDE = SPANS < 8 / BATCH ? SPANS : 8 / BATCH;
    const u32 from = address(shared.ring) + head * FOUND_PITCH + first * 2;
#pragma unroll
    for (u32 start = 0; start < CLUSTER; start += BATCH)
#pragma unroll
        for (u32 part = 0; part < SPANS; part += WIDE) {
            Span some[BATCH][WIDE] = {};
#pragma unroll
            for (u32 nth = 0; nth < BATCH; ++nth)
                if (weights[start + nth] > 0.f) {
                    const u32 there = in_block(from, (rank + start + nth) % CLUSTER);
#pragma unroll
                    for (u32 span = 0; span < WIDE; ++span)
                        some[nth][span] = remote(there + (part + span) * SHARERS * COLUMNS * 2);
                }
#pragma unroll
            for (u32 nth = 0; nth < BATCH; ++nth)
#pragma unroll
                for (u32 span = 0; span < WIDE; ++span)
#pragma unroll
                    for (u32 column = 0; column < COLUMNS; ++column) {
                        const u32 word = some[nth][span].words[column / 2];
                        all.columns[part + span][column]
                            += weights[start + nth] * __uint_as_float(column % 2 ? word & 0xffff0000u : word << 16);
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
       void *output, float *lse, float *partial, float2 *partial_sums, u32 *arrivals) {
    extern __shared__ __align__(1024) char memory[];
    Shared &shared = *(Shared *)memory;
    const u32 token = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS, warp = uniform(threadIdx.x / 32);
    const u32 rank = split % CLUSTER, group = split / CLUSTER;
    cluster_arrive();  // nobody writes into a block that has not started
    int mine[PLACES];
    if (warp < WARPS) {
        load_places(mine, indices + (u64)token * WIDTH, split);
        if (GROUPS > 1 && threadIdx.x == 0)  // the counter is far away: ask for it before it is needed
            asm volatile("prefetch.global.L2 [%0];" :: "l"(arrivals + token * CLUSTER + rank));
    } else {
#pragma unroll
        for (u32 nth = 0; nth < PLACES; ++nth) mine[nth] = -1;
        if (threadIdx.x == THREADS) {
            const auto start = [](u64 &barrier, u32 count) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(&barrier)), "r"(count) : "memory");
            };
            for (u32 slot = 0; slot < STAGES; ++slot) start(shared.arrived[slot], THREADS), start(shared.freed[slot], WARPS);
            start(shared.asked, 32);
            if ((address(memory) & 1023) != 0) __trap();  // the swizzle is of addresses
        }
        if (warp == WARPS) {
            __syncwarp();
            fetch<HEADS>(shared.queries, q_nope + (u64)token * HEADS * 2 * CKV, q_pe + (u64)token * HEADS * 2 * KPE, 0, HEADS,
                  [](u32 head) { return head; });
            count_in(shared.asked);
        }
    }
    const u32 count = uniform(write_rows(shared, mine));
    if (warp >= WARPS) {
        fetch_all(shared, ckv, kpe, count);
        cluster_wait(), cluster_arrive(), cluster_wait(), cluster_arrive(), cluster_wait();
        return;
    }
    Own own;
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk)
#pragma unroll
        for (u32 nth = 0; nth < 8; ++nth) own.found[chunk][nth] = 0.f;
    if (count > 0) attend(own, shared, count, scale);
    else wait_for(address(&shared.asked), 0);  // nothing is under way when a block ends
    meet();
    cluster_wait();
    show(own, shared, rank);
    cluster_arrive();
    if (CLUSTER > 1) cluster_wait();
    else meet();

    const u32 head = threadIdx.x / SHARERS, first = rank * SLICE + threadIdx.x % SHARERS * COLUMNS;
    const u64 place = (u64)token * HEADS + head, row = (u64)token * GROUPS * HEADS + head;
    Weighed all;
    weigh_cluster(all, shared, rank, head, first);
    cluster_arrive();  // no block ends while another may read from it
    if (GROUPS == 1 || weigh_groups(all, shared, partial + row * CKV + first,
                                    partial_sums + ((u64)token * GROUPS * CLUSTER + rank) * HEADS + head,
                                    arrivals + token * CLUSTER + rank, group)) {
        store_answer(all, (char *)output + (place * CKV + first) * 2);
        if (first == 0) lse[place] = all.sums.y > 0.f ? all.sums.x + __log2f(all.sums.y) : NOTHING;
    }
    cluster_wait();
}
