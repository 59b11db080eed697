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

#include "attention.cuh"

constexpr u32 GROUPS = SPLITS / CLUSTER;
constexpr u32 SHARE = WIDTH / SPLITS;                   // places of the list that a block looks at
constexpr bool SHORT = SHARE <= 256;                    // a warp looks at all of it
constexpr u32 LOOKERS = SHORT ? 32 : THREADS;
constexpr u32 PLACES = SHARE < LOOKERS ? 1 : SHARE / LOOKERS;  // of the list, a thread
constexpr u32 GRANULE = SHORT || PLACES < 8 ? 8 : PLACES;      // neighbouring places that stay in one block
constexpr u32 SLICE = CKV / CLUSTER, SHARERS = THREADS / HEADS;  // columns of a block of the cluster, by 8 threads a head
constexpr u32 COLUMNS = SLICE / SHARERS < 8 ? 4 : 8;    // side by side in a thread, SPANS times
constexpr u32 SPANS = SLICE / SHARERS / COLUMNS;

static_assert(SPLITS % CLUSTER == 0 && WIDTH % SPLITS == 0, "whole clusters, whole shares");
static_assert(SHARE >= 8 && (SHARE % GRANULE == 0 || SHARE < GRANULE), "shares are whole granules");
static_assert(SPANS >= 1, "a thread weighs at least four columns");
static_assert(GROUPS == 1 || CLUSTER > 1, "the blocks of a token are clusters, or one");

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

// The same for what other blocks of the cluster have stored.
__device__ inline void wait_for_cluster(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(barrier), "r"(parity) : "memory");
}

__device__ inline void cluster_arrive() {
    if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

__device__ inline void cluster_wait() {
    if (CLUSTER > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

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
        score(logits, rows, queries);
        if (tile == 0) MARK(2);
        weigh_tile(own, shared, logits, tile, min(valid, TILE), scale);
        if (tile == 0) MARK(3);
        add_values(own, rows, weights, valid);
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
    const u32 count = uniform(SHORT ? write_own_rows(shared, mine, warp - WARPS) : write_rows(shared, mine, threadIdx.x / 32, [] { __syncthreads(); }));
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
        lay_out<true>(own, shared.queries, by);
        meet();
        for (u32 piece = threadIdx.x; piece < HEADS * 2 * CKV / 16; piece += THREADS)
            *((uint4 *)output + (u64)token * HEADS * 2 * CKV / 16 + piece)
                = *(const uint4 *)(shared.queries[0][0] + piece / 64 * FOUND_PITCH + piece % 64 * 16);
        if (own_first == 0) store_lse(lse + place, sums_of(shared, head));
        return;
    }
    const float unweighed[4] = {};
    lay_out<false>(own, shared.queries, unweighed);
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
