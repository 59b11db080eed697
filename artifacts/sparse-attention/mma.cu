// Sparse attention decode (shared/dsa.py has the definition): rows fetched once, used twice, reduced on chip.
//
// A block owns one split of one token's list, for all 16 heads. It writes down the rows that the
// split lists (COMPACT: none for padding), and keeps a ring of STAGES tiles of TILE rows in shared
// memory, each row 512 + 64 numbers and 16 bytes of room, so that eight rows start in eight
// different bank groups. One warp more than WARPS does nothing but fetch (when the memory is busy,
// an instruction that asks for rows stands still for a thousand cycles); the others compute.
// Matrix instructions are m16n8k16: the 16 heads are M, nothing is padded.
//
//   scores   a warp owns 8 rows of the tile and 1 / PARTS of the 576 products of a row's logits;
//            the partial logits meet in shared memory: the only barrier of a tile
//   weights  every warp reads all logits of the tile and keeps the maximum and the sum by itself
//   output   a warp owns 512 / WARPS columns of the output, in registers
//
// What a block found stays in shared memory; the blocks of a cluster weigh it together, one
// CLUSTER-th of the columns each. Where a token has several clusters (GROUPS), partial outputs go to
// memory, and the block that arrives last weighs them (LAST), or another kernel does (`weigh`).
//
// Macros: SPLITS CLUSTER WARPS TILE STAGES RESIDENT BULK COMPACT LAST EACH WIDTH SHARED

using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 HEADS = 16, CKV = 512, KPE = 64, DEPTH = CKV + KPE;
constexpr u32 THREADS = 32 * WARPS;                     // that compute; 32 more fetch
constexpr u32 GROUPS = SPLITS / CLUSTER;
constexpr u32 SHARE = WIDTH / SPLITS;                   // places of the list that a block looks at
constexpr u32 ROW_BYTES = 2 * DEPTH, PITCH = ROW_BYTES + 16, SLOT = TILE * PITCH;
constexpr u32 PARTS = WARPS * 8 / TILE, STEPS = DEPTH / 16 / PARTS;  // of 16 products each
constexpr u32 BLOCKS = CKV / WARPS / 8;                 // of 8 columns, a warp
constexpr u32 SCORES = TILE + 8;                        // pitch, in floats: no two lanes in one bank
constexpr u32 PLACES = SHARE < THREADS ? 1 : SHARE / THREADS;  // of the list, a thread
constexpr u32 GRANULE = PLACES < 8 ? 8 : PLACES;        // neighbouring places that stay in one block
constexpr u32 PIECES = ROW_BYTES / 16;
constexpr u32 SLICE = CKV / CLUSTER, SHARERS = THREADS / HEADS, QUADS = SLICE / SHARERS / 4;

static_assert(SPLITS % CLUSTER == 0 && WIDTH % SPLITS == 0, "whole clusters, whole shares");
static_assert(PARTS * TILE == WARPS * 8 && STEPS * PARTS * 16 == DEPTH, "warps divide a tile's scores");
static_assert(SHARE >= 8 && (SHARE % GRANULE == 0 || SHARE < GRANULE), "shares are whole granules");
static_assert(TILE >= HEADS && STAGES >= 2, "the queries use one slot of the ring at first");
static_assert(QUADS >= 1, "a thread weighs at least four columns");
static_assert(STAGES * SLOT >= HEADS * (CKV + 8) * 4, "the outputs use the ring in the end");

#define NOTHING (-__int_as_float(0x7f800000))  // the maximum of no logits: minus infinity

struct Shared {
    alignas(128) char ring[STAGES * SLOT];
    float scores[2][PARTS][HEADS][SCORES];
    float2 sums[CLUSTER][HEADS];  // maximum (base 2) and sum of weights of every block of the cluster
    int rows[SHARE];
    u32 counts[WARPS];
    u32 last;
    alignas(8) u64 arrived[STAGES], freed[STAGES], queries;
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

// A warp has read a slot. One lane says so for all; with EACH every lane says it for itself, which takes
// longer, and which racecheck can follow: it does not see that __syncwarp comes before the one lane's word.
constexpr u32 READERS = EACH ? 32 : 1;  // of a warp, that say so

__device__ inline void has_read(u64 &barrier) {
    if (!EACH) __syncwarp();
    if (EACH || threadIdx.x % 32 == 0) arrive(address(&barrier));
}

// A barrier of the warps that compute.
__device__ inline void meet() { asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory"); }

__device__ inline void cluster_arrive() {
    if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

__device__ inline void cluster_wait() {
    if (CLUSTER > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

__device__ inline void load_matrices(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

__device__ inline void load_two_matrices(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
}

__device__ inline void load_transposed(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

__device__ inline void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

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
        const u32 place = COMPACT ? own / GRANULE * (GRANULE * SPLITS) + split * GRANULE + own % GRANULE
                                  : split * SHARE + own;
        mine[nth] = own < SHARE ? __ldg(indices + place) : -1;
    }
}

// Write down the rows that this block attends to, in the order of the list; returns how many.
__device__ inline u32 write_rows(Shared &shared, const int (&mine)[PLACES]) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto counts = [&](u32 nth) {  // the warp that fetches has no place
        return COMPACT ? mine[nth] >= 0 : threadIdx.x * PLACES + nth < SHARE;
    };
    u32 valid = 0;
#pragma unroll
    for (u32 nth = 0; nth < PLACES; ++nth) valid += counts(nth);
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
        if (counts(nth)) shared.rows[before++] = mine[nth];
    __syncthreads();
    return total;
}

// region: fetch
// Ask for TILE rows, as one warp: `row_of(n)` says which the n-th is. `barrier` then counts them in.
template <class RowOf>
__device__ inline void fetch(u32 to, u32 barrier, const char *ckv, const char *kpe, RowOf row_of) {
    const u32 lane = threadIdx.x % 32;
    if (BULK) {
        if (lane == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(barrier), "r"(TILE * ROW_BYTES) : "memory");
        __syncwarp();
#pragma unroll
        for (u32 nth = lane; nth < 2 * TILE; nth += 32) {
            const u32 tail = nth / TILE, bytes = tail ? 2 * KPE : 2 * CKV;
            const char *from = (tail ? kpe : ckv) + (u64)row_of(nth % TILE) * bytes;
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :: "r"(to + nth % TILE * PITCH + tail * 2 * CKV), "l"(from), "r"(bytes), "r"(barrier) : "memory");
        }
        return;
    }
    const auto copy = [](u32 to, const char *from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
    };
    const u32 mine = row_of(lane % TILE);
#pragma unroll
    for (u32 nth = 0; nth < TILE; ++nth) {
        const char *from = ckv + (u64)__shfl_sync(0xffffffffu, mine, nth) * 2 * CKV + lane * 16;
        copy(to + nth * PITCH + lane * 16, from);
        copy(to + nth * PITCH + lane * 16 + CKV, from + CKV);
    }
#pragma unroll
    for (u32 first = 0; first < TILE; first += 4) {
        const u32 nth = first + lane / 8, piece = lane % 8;
        copy(to + nth * PITCH + 2 * CKV + piece * 16, kpe + (u64)__shfl_sync(0xffffffffu, mine, nth) * 2 * KPE + piece * 16);
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory");
}

// Keep the ring full. The last slot holds the queries at first, as 16 rows like any others.
__device__ inline void fetch_all(Shared &shared, const char *ckv, const char *kpe, u32 count) {
    const u32 tiles = (count + TILE - 1) / TILE;
    for (u32 tile = 0; tile < tiles; ++tile) {
        const u32 slot = tile % STAGES, frees = tile / STAGES + (slot == STAGES - 1);  // awaited before
        if (frees > 0) wait_for(address(&shared.freed[slot]), (frees - 1) & 1);
        // Past the end the last row is fetched again: finite, and of no weight.
        fetch(address(shared.ring + slot * SLOT), address(&shared.arrived[slot]), ckv, kpe, [&](u32 nth) {
            const int row = shared.rows[min(tile * TILE + nth, count - 1)];
            return (u32)(COMPACT ? row : max(row, 0));
        });
    }
}
// endregion

// What one warp has: its part of the queries, and its columns of the output.
struct Warp {
    u32 queries[STEPS][4];
    float found[BLOCKS][4];
    float maximum[2] = {NOTHING, NOTHING}, sum[2] = {0.f, 0.f};  // of heads lane / 4 and that + 8
};

// region: scores
__device__ inline void scores(const Warp &own, Shared &shared, u32 tile) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 block = warp % (TILE / 8), part = warp / (TILE / 8);
    const u32 from = address(shared.ring + tile % STAGES * SLOT) + (block * 8 + lane % 8) * PITCH
                     + part * STEPS * 32 + lane / 8 * 16;
    float sums[3][4] = {};
#pragma unroll
    for (u32 step = 0; step < STEPS; step += 2) {
        u32 keys[4];
        if (step + 1 < STEPS) load_matrices(keys, from + step * 32);
        else load_two_matrices(keys, from + step * 32);
        multiply(sums[step % 3], own.queries[step], keys[0], keys[1]);
        if (step + 1 < STEPS) multiply(sums[(step + 1) % 3], own.queries[step + 1], keys[2], keys[3]);
    }
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        float2 logits = {sums[0][2 * half] + sums[1][2 * half] + sums[2][2 * half],
                         sums[0][2 * half + 1] + sums[1][2 * half + 1] + sums[2][2 * half + 1]};
        *(float2 *)&shared.scores[tile % 2][part][lane / 4 + 8 * half][block * 8 + lane % 4 * 2] = logits;
    }
}
// endregion

// region: weights
// Weights of the tile's rows as the left operand of the second product, 16 rows at a time.
__device__ inline void weights(Warp &own, const Shared &shared, u32 tile, u32 count, float scale,
                               u32 (&packed)[TILE / 16][4]) {
    const u32 lane = threadIdx.x % 32, row = tile * TILE + lane % 4 * 2;
    float2 logits[TILE / 16][4];
    float higher[2] = {own.maximum[0], own.maximum[1]};
#pragma unroll
    for (u32 part = 0; part < TILE / 16; ++part)
#pragma unroll
        for (u32 nth = 0; nth < 4; ++nth) {  // in the order of the operand: head, head + 8, then 8 rows on
            const u32 at = part * 16 + nth / 2 * 8, head = lane / 4 + nth % 2 * 8;
            float2 sum = {0.f, 0.f};
#pragma unroll
            for (u32 piece = 0; piece < PARTS; ++piece) {
                const float2 some = *(const float2 *)&shared.scores[tile % 2][piece][head][at + lane % 4 * 2];
                sum.x += some.x, sum.y += some.y;
            }
            const bool first = row + at < count && (COMPACT || shared.rows[row + at] >= 0);
            const bool second = row + at + 1 < count && (COMPACT || shared.rows[row + at + 1] >= 0);
            logits[part][nth].x = first ? sum.x * scale : NOTHING;
            logits[part][nth].y = second ? sum.y * scale : NOTHING;
            higher[nth % 2] = fmaxf(higher[nth % 2], fmaxf(logits[part][nth].x, logits[part][nth].y));
        }
    float shrink[2];
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        higher[half] = fmaxf(higher[half], __shfl_xor_sync(0xffffffffu, higher[half], 1));
        higher[half] = fmaxf(higher[half], __shfl_xor_sync(0xffffffffu, higher[half], 2));
        const float base = zero_if_empty(higher[half]);
        shrink[half] = power(own.maximum[half] - base);
        own.sum[half] *= shrink[half];
        own.maximum[half] = higher[half];
        higher[half] = base;
    }
#pragma unroll
    for (u32 part = 0; part < TILE / 16; ++part)
#pragma unroll
        for (u32 nth = 0; nth < 4; ++nth) {
            const float one = power(logits[part][nth].x - higher[nth % 2]);
            const float two = power(logits[part][nth].y - higher[nth % 2]);
            own.sum[nth % 2] += one + two;
            packed[part][nth] = pair(one, two);
        }
    if (__any_sync(0xffffffffu, shrink[0] != 1.f || shrink[1] != 1.f)) {
#pragma unroll
        for (u32 block = 0; block < BLOCKS; ++block)
#pragma unroll
            for (u32 nth = 0; nth < 4; ++nth) own.found[block][nth] *= shrink[nth / 2];
    }
}
// endregion

__device__ inline void outputs(Warp &own, const Shared &shared, u32 tile, const u32 (&packed)[TILE / 16][4]) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 from = address(shared.ring + tile % STAGES * SLOT) + (lane / 8 % 2 * 8 + lane % 8) * PITCH
                     + warp * BLOCKS * 16 + lane / 16 * 16;
#pragma unroll
    for (u32 part = 0; part < TILE / 16; ++part)
#pragma unroll
        for (u32 block = 0; block < BLOCKS; block += 2) {
            u32 values[4];
            load_transposed(values, from + part * 16 * PITCH + block * 16);
            multiply(own.found[block], packed[part], values[0], values[1]);
            multiply(own.found[block + 1], packed[part], values[2], values[3]);
        }
}

__device__ inline void load_queries(Warp &own, const Shared &shared) {
    const u32 lane = threadIdx.x % 32, part = threadIdx.x / 32 / (TILE / 8);
    const u32 from = address(shared.ring + (STAGES - 1) * SLOT) + (lane / 8 % 2 * 8 + lane % 8) * PITCH
                     + part * STEPS * 32 + lane / 16 * 16;
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) load_matrices(own.queries[step], from + step * 32);
}

__device__ inline void attend(Warp &own, Shared &shared, u32 count, float scale) {
    const u32 tiles = (count + TILE - 1) / TILE;
    wait_for(address(&shared.queries), 0);
    load_queries(own, shared);
    has_read(shared.freed[STAGES - 1]);
    for (u32 tile = 0; tile < tiles; ++tile) {
        wait_for(address(&shared.arrived[tile % STAGES]), tile / STAGES & 1);
        scores(own, shared, tile);
        meet();
        u32 packed[TILE / 16][4];
        weights(own, shared, tile, count, scale, packed);
        outputs(own, shared, tile, packed);
        has_read(shared.freed[tile % STAGES]);
    }
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        own.sum[half] += __shfl_xor_sync(0xffffffffu, own.sum[half], 1);
        own.sum[half] += __shfl_xor_sync(0xffffffffu, own.sum[half], 2);
    }
}

__device__ inline void store_answer(void *output, float *lse, u32 token, u32 head, u32 column, float4 value,
                                    float2 sums, bool writes_lse) {
    const float by = sums.y > 0.f ? 1.f / sums.y : 0.f;
    const uint2 packed = {pair(value.x * by, value.y * by), pair(value.z * by, value.w * by)};
    *(uint2 *)((char *)output + ((u64)(token * HEADS + head) * CKV + column) * 2) = packed;
    if (writes_lse) lse[token * HEADS + head] = sums.y > 0.f ? sums.x + __log2f(sums.y) : NOTHING;
}

__device__ inline void add(float4 &sum, float4 value, float weight) {
    sum.x += value.x * weight, sum.y += value.y * weight, sum.z += value.z * weight, sum.w += value.w * weight;
}

// Weigh COUNT partial outputs of one head: `sums[n]` has maximum and sum of the n-th, `values_of(n, q)`
// gives four of its columns. Sixteen loads are under way at once; one that weighs nothing is not read.
template <u32 COUNT, class Values>
__device__ inline float2 weigh_all(float4 (&values)[QUADS], const float2 (&sums)[COUNT], Values values_of) {
    constexpr u32 BATCH = COUNT < 8 ? COUNT : 8, WIDE = QUADS < 16 / BATCH ? QUADS : 16 / BATCH;
    float2 all = {NOTHING, 0.f};
    float weights[COUNT];
#pragma unroll
    for (u32 nth = 0; nth < COUNT; ++nth) all.x = fmaxf(all.x, sums[nth].x);
#pragma unroll
    for (u32 nth = 0; nth < COUNT; ++nth) {
        weights[nth] = power(sums[nth].x - zero_if_empty(all.x));
        all.y += sums[nth].y * weights[nth];
    }
#pragma unroll
    for (u32 first = 0; first < COUNT; first += BATCH)
#pragma unroll
        for (u32 column = 0; column < QUADS; column += WIDE) {
            float4 some[BATCH][WIDE] = {};
#pragma unroll
            for (u32 nth = 0; nth < BATCH; ++nth)
                if (weights[first + nth] > 0.f) {
#pragma unroll
                    for (u32 quad = 0; quad < WIDE; ++quad) some[nth][quad] = values_of(first + nth, column + quad);
                }
#pragma unroll
            for (u32 nth = 0; nth < BATCH; ++nth)
#pragma unroll
                for (u32 quad = 0; quad < WIDE; ++quad) add(values[column + quad], some[nth][quad], weights[first + nth]);
        }
    return all;
}

__device__ inline u32 in_block(u32 own_address, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own_address), "r"(rank));
    return there;
}

__device__ inline float4 remote4(u32 from) {
    float4 value;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w) : "r"(from) : "memory");
    return value;
}

// The outputs of this block, where the cluster can read them, [16][512 + 8] floats; its sums go to every block.
constexpr u32 FOUND_PITCH = CKV + 8;

__device__ inline void show(const Warp &own, Shared &shared, u32 rank) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (u32 block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 at = (lane / 4 + half * 8) * FOUND_PITCH + (warp * BLOCKS + block) * 8 + lane % 4 * 2;
            *(float2 *)(shared.ring + at * 4) = {own.found[block][2 * half], own.found[block][2 * half + 1]};
        }
    for (u32 other = warp; other < CLUSTER; other += WARPS)
        if (lane % 4 < 2) {
            const u32 half = lane % 4, at = address(&shared.sums[rank][lane / 4 + half * 8]);
            asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" :: "r"(in_block(at, other)),
                         "f"(half ? own.maximum[1] : own.maximum[0]), "f"(half ? own.sum[1] : own.sum[0]) : "memory");
        }
}

extern "C" __global__ void __launch_bounds__(THREADS + 32, RESIDENT)
decode(const char *q_nope, const char *q_pe, const char *ckv, const char *kpe, const int *indices, float scale,
       void *output, float *lse, float *partial, float2 *partial_sums, u32 *arrivals) {
    extern __shared__ __align__(128) char memory[];
    Shared &shared = *(Shared *)memory;
    const u32 token = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS, warp = threadIdx.x / 32;
    const u32 rank = split % CLUSTER, group = split / CLUSTER;
    cluster_arrive();  // nobody writes into a block that has not started
    int mine[PLACES];
    if (warp < WARPS) {
        load_places(mine, indices + (u64)token * WIDTH, split);
    } else {
#pragma unroll
        for (u32 nth = 0; nth < PLACES; ++nth) mine[nth] = -1;
        if (threadIdx.x % 32 == 0) {
            const auto start = [](u64 &barrier, u32 count) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(&barrier)), "r"(count) : "memory");
            };
            for (u32 slot = 0; slot < STAGES; ++slot) start(shared.arrived[slot], BULK ? 1 : 32), start(shared.freed[slot], READERS * WARPS);
            start(shared.queries, BULK ? 1 : 32);
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        __syncwarp();
        // As many rows as a tile has; those beyond the 16 heads are heads again, and nobody reads them.
        fetch(address(shared.ring + (STAGES - 1) * SLOT), address(&shared.queries), q_nope + (u64)token * HEADS * 2 * CKV,
              q_pe + (u64)token * HEADS * 2 * KPE, [](u32 nth) { return nth % HEADS; });
    }
    const u32 count = write_rows(shared, mine);
    if (warp == WARPS) {
        fetch_all(shared, ckv, kpe, count);
        cluster_wait(), cluster_arrive(), cluster_wait(), cluster_arrive(), cluster_wait();
        return;
    }
    Warp own;
#pragma unroll
    for (u32 block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (u32 nth = 0; nth < 4; ++nth) own.found[block][nth] = 0.f;
    if (count > 0) attend(own, shared, count, scale);
    else wait_for(address(&shared.queries), 0);  // nothing may still arrive where the outputs go
    meet();
    cluster_wait();
    show(own, shared, rank);
    cluster_arrive();
    if (CLUSTER > 1) cluster_wait();
    else meet();

    // region: cluster
    const u32 head = threadIdx.x / SHARERS, sharer = threadIdx.x % SHARERS;
    const auto column = [&](u32 quad) { return rank * SLICE + (quad * SHARERS + sharer) * 4; };
    float4 values[QUADS] = {};
    float2 all[CLUSTER];
#pragma unroll
    for (u32 nth = 0; nth < CLUSTER; ++nth) all[nth] = shared.sums[(rank + nth) % CLUSTER][head];
    const u32 own_values = address(shared.ring) + head * FOUND_PITCH * 4;
    float2 sums = weigh_all<CLUSTER>(values, all, [&](u32 nth, u32 quad) {  // each starts with itself
        return remote4(in_block(own_values, (rank + nth) % CLUSTER) + column(quad) * 4);
    });
    cluster_arrive();  // no block ends while another may read from it
    // endregion
    if (GROUPS > 1) {
        const u64 first = ((u64)token * GROUPS * HEADS + head) * CKV;
        const auto slot = [&](u32 other, u32 quad) {
            return (float4 *)(partial + first + (u64)other * HEADS * CKV + column(quad));
        };
        float2 *const there = partial_sums + ((u64)token * GROUPS * CLUSTER + rank) * HEADS + head;
#pragma unroll
        for (u32 quad = 0; quad < QUADS; ++quad) __stcg(slot(group, quad), values[quad]);
        if (sharer == 0) __stcg(there + group * CLUSTER * HEADS, sums);
        if (LAST) {
            meet();
            if (threadIdx.x == 0) {
                __threadfence();
                // The counter starts again by itself: atomicInc wraps to 0 after the last one.
                shared.last = atomicInc(arrivals + token * CLUSTER + rank, GROUPS - 1) == GROUPS - 1;
                __threadfence();
            }
            meet();
            if (shared.last) {
                float2 each[GROUPS];
#pragma unroll
                for (u32 nth = 0; nth < GROUPS; ++nth) each[nth] = __ldcg(there + nth * CLUSTER * HEADS);
#pragma unroll
                for (u32 quad = 0; quad < QUADS; ++quad) values[quad] = {};
                sums = weigh_all<GROUPS>(values, each, [&](u32 nth, u32 quad) { return __ldcg(slot(nth, quad)); });
            }
        }
    }
    if (GROUPS == 1 || (LAST && shared.last)) {
#pragma unroll
        for (u32 quad = 0; quad < QUADS; ++quad)
            store_answer(output, lse, token, head, column(quad), values[quad], sums, quad == 0 && sharer == 0 && rank == 0);
    }
    cluster_wait();
}

// Weighs the GROUPS partial outputs of a token; a block owns what a block of `decode` with that rank would.
extern "C" __global__ void __launch_bounds__(THREADS)
weigh(void *output, float *lse, const float *partial, const float2 *partial_sums) {
    const u32 token = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    const u32 head = threadIdx.x / SHARERS, sharer = threadIdx.x % SHARERS;
    const auto column = [&](u32 quad) { return rank * SLICE + (quad * SHARERS + sharer) * 4; };
    const u64 first = ((u64)token * GROUPS * HEADS + head) * CKV;
    const float2 *const there = partial_sums + ((u64)token * GROUPS * CLUSTER + rank) * HEADS + head;
    float4 values[QUADS] = {};
    float2 each[GROUPS];
#pragma unroll
    for (u32 nth = 0; nth < GROUPS; ++nth) each[nth] = __ldcg(there + nth * CLUSTER * HEADS);
    const float2 sums = weigh_all<GROUPS>(values, each, [&](u32 nth, u32 quad) {
        return __ldcg((const float4 *)(partial + first + (u64)nth * HEADS * CKV + column(quad)));
    });
#pragma unroll
    for (u32 quad = 0; quad < QUADS; ++quad)
        store_answer(output, lse, token, head, column(quad), values[quad], sums, quad == 0 && sharer == 0 && rank == 0);
}
