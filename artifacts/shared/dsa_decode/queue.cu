// Sparse attention decode for many tokens: a block on every multiprocessor takes tiles from whichever list still has some.
//
// decode.cu gives each token a fixed number of blocks, which is right for lists of one length. Here a token has the blocks
// that come to it: a block begins with a token of its own, takes tiles of TILE rows from its list, one at a time, and so does
// every other block that comes. Blocks beyond the tokens wait until the lists are read, and begin where most is left. When a
// list has no more tiles, the block looks for another: first for a token that nobody has begun, by tickets, then for the
// lists with the most tiles left, which it joins as a thief.
//
//   fetch    four warps decide, and tell the four that compute through a ring of items: a tile of so many rows is on its
//            way, that was all of this token, that was all. Rows and products are decode.cu's
//   answer   of a block that took all tiles of a list: as it is. Otherwise every block leaves what it found in memory, bf16
//            [16, 512] not yet normalised, and the block whose tiles complete the list weighs them all
//
// A list without rows is one tile, of no rows: exactly one block takes it, and answers with zeros. So every list has a tile,
// whoever takes the last answers, and a number of tiles of 0 says that no block has read the list yet.
//
// No block waits for another: warps wait for warps of their own block only, a thief that finds nothing goes on or ends, and
// one that finds lists which nobody has read yet looks again, LOOKS times at the beginning and LOOKS times after it at most.
// So it does not matter whether all blocks run at once. Which block takes which tile differs from call to call, and with it
// the order of sums: so do the last bits.
//
// Macros: TILE STAGES RESIDENT WIDTH SHARED, LEAST THIEVES LOOKS, and TRACE

#include "attention.cuh"
#include "queue.cuh"

constexpr u32 PLACES = WIDTH / THREADS;                        // of a list, for a thread that fetches
constexpr u32 ITEMS = 8;                                       // told and not yet heard: STAGES + 4 at most
constexpr u32 JOINERS = 1 + THIEVES;                           // blocks that may have tiles of one token
constexpr u32 END = TILE + 1, STOP = TILE + 2;                 // in the place of a tile's rows

static_assert(TILE == 64, "the matrix unit takes 64 rows");
static_assert(ITEMS >= STAGES + 4, "nobody is told more than there is room for");

struct Answers {
    char *output;
    float *lse;
    uint4 *partial;      // [tokens that others may join][JOINERS], each [VALUES][THREADS]: what a thread has, as bf16
    float2 *sums;        // of each, [HEADS]: maximum (base 2), sum of weights
    Token *state;
    u32 first;           // token of them
};

struct Shared {
    alignas(1024) char ring[STAGES][CHUNKS][TILE][SWIZZLED];
    alignas(1024) char queries[2][CHUNKS][HEADS][SWIZZLED];  // of a token and the next, in turns; in the end its outputs
    alignas(1024) char weights[HEADS][SWIZZLED];
    float maxima[2][WARPS][HEADS];  // of a tile's rows, in turns; in the end of all, and the warps' sums
    alignas(16) char parts[2][VALUES * THREADS * 16];  // partial outputs of other blocks; a third takes the queries' place
    alignas(16) float2 part_sums[JOINERS][HEADS];       // of all of a token: maximum (base 2), sum of weights
    uint4 items[ITEMS];             // rows; or END, token, tiles taken and of how many, as which block; or STOP
    int rows[WIDTH];
    u32 counts[WARPS], taken[2], token, all;
    alignas(8) u64 arrived[STAGES], freed[STAGES], asked[2], answered[2], told[ITEMS];
};

static_assert(sizeof(Shared) <= SHARED, "the host asks for enough shared memory");

// A barrier of the warps that fetch.
__device__ inline void agree() { asm volatile("bar.sync 2, %0;" :: "n"(THREADS) : "memory"); }

__device__ inline void tell(Shared &shared, u32 &told, uint4 item) {
    shared.items[told % ITEMS] = item;
    arrive(address(&shared.told[told % ITEMS]));
    ++told;
}

__device__ inline u32 hear(Shared &shared, u32 &heard) {
    const u32 nth = heard % ITEMS;
    wait_for(address(&shared.told[nth]), heard / ITEMS & 1);
    ++heard;
    return uniform(shared.items[nth].x);
}

// A thread's places of a list: 16 side by side.
__device__ inline void read_list(int (&mine)[PLACES], const Lists &lists, u32 token) {
    const int4 *const from = (const int4 *)(lists.indices + (u64)token * WIDTH) + (threadIdx.x - THREADS) * (PLACES / 4);
#pragma unroll
    for (u32 nth = 0; nth < PLACES / 4; ++nth) {
        const int4 four = __ldg(from + nth);
        mine[nth * 4] = four.x, mine[nth * 4 + 1] = four.y, mine[nth * 4 + 2] = four.z, mine[nth * 4 + 3] = four.w;
    }
}

// The warps that fetch: `mine` are this thread's places of the list of token `next`, of which the leader has asked for a tile;
// or `next` is NONE, and there is no such token.
__device__ inline void fetch_lists(Shared &shared, const Lists &lists, u32 next, int (&mine)[PLACES], u32 ahead) {
    const u32 fetcher = uniform(threadIdx.x / 32) - WARPS;
    const bool leads = threadIdx.x == THREADS;
    bool tickets = lists.tokens > gridDim.x, begins = next == NONE;
    u32 told = 0, asked = 0, fetched = 0, looks = 0;  // items, queries, tiles, looks at all tokens
    u32 nth = 0;  // of the blocks of this token
    const auto ask = [&](u32 token) {
        const u32 turn = asked % 2;
        if (asked >= 2) wait_for(address(&shared.answered[turn]), (asked / 2 - 1) & 1);
        fetch(shared.queries[turn], lists.q_nope + (u64)token * HEADS * 2 * CKV, lists.q_pe + (u64)token * HEADS * 2 * KPE,
              fetcher, HEADS / WARPS, HEADS, [](u32 head) { return head; });
        count_in(shared.asked[turn]);
        ++asked;
    };
#pragma unroll 1
    for (;; next = NONE, begins = false) {
        if (next == NONE) {
            if (fetcher == 0) {
                next = find_token(lists, tickets, looks, begins);
                if (leads) shared.token = next;
            }
            agree();
            next = uniform(shared.token);
            if (next == NONE) break;
            read_list(mine, lists, next % STOLEN);
            if (leads) {
                Token &found = lists.state[next % STOLEN];
                nth = next < STOLEN ? 0 : join(found);
                ahead = nth <= THIEVES ? ask_for_tile(found) : NONE;
            }
        }
        const u32 token = next % STOLEN, asked_before = asked;
        Token &state = lists.state[token];
        if (asked == 0) ask(token);  // of the first token, while its list is on its way
        const u32 count = uniform(write_rows(shared, mine, fetcher, agree)), tiles = max((count + TILE - 1) / TILE, 1u);
        if (leads) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(&state.tiles), "r"(tiles) : "memory");
        u32 took = 0;
#pragma unroll 1
        for (;; ++took) {
            if (leads) {
                const u32 tile = shared.taken[took % 2] = ahead % JOINED;
                if (tile < tiles && count > 0) tell(shared, told, {min(TILE, count - tile * TILE), 0, 0, 0});
            }
            agree();
            const u32 tile = uniform(shared.taken[took % 2]);
            if (tile >= tiles) break;
            // The answer comes while this tile is fetched. It is a later tile than this one, so after the last nobody need ask.
            if (leads) ahead = tile + 1 < tiles ? ask_for_tile(state) : NONE;
            if (asked == asked_before) ask(token);
            if (count == 0) continue;
            const u32 slot = fetched % STAGES, valid = min(TILE, count - tile * TILE);
            if (fetched >= STAGES) wait_for(address(&shared.freed[slot]), (fetched / STAGES - 1) & 1);
            fetch(shared.ring[slot], lists.ckv, lists.kpe, fetcher, (valid + 15) / 16 * (16 / WARPS), valid,
                  [&](u32 nth) { return (u32)shared.rows[tile * TILE + nth]; });
            count_in(shared.arrived[slot]);
            ++fetched;
        }
        if (leads && asked != asked_before)
            tell(shared, told, {END, token, took | tiles << 16, nth});
    }
    if (leads) tell(shared, told, {STOP, 0, 0, 0});
}

__device__ inline u32 head_of(u32 nth) { return threadIdx.x % 4 * 2 + nth / 2 * 8 + nth % 2; }  // of a thread's four

// region: leave
// Leave what this block found in memory. Returns all blocks of the token, a bit each, if it was what the token still missed.
__device__ inline u32 leave(const Own &own, const float2 (&sums)[4], Shared &shared, const Answers &to, u32 place, uint4 item) {
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk) {
        const float(&found)[8] = own.found[chunk];
        __stcg(to.partial + ((u64)place * VALUES + chunk) * THREADS + threadIdx.x,
               uint4{pair(found[0], found[1]), pair(found[2], found[3]), pair(found[4], found[5]), pair(found[6], found[7])});
    }
#pragma unroll
    for (u32 nth = 0; nth < 4; ++nth)
        if (threadIdx.x < 4) __stcg(to.sums + place * HEADS + head_of(nth), sums[nth]);
    meet();
    if (threadIdx.x == 0) shared.all = hand_in(to.state[item.y], item.z % 65536, item.w, item.z / 65536);
    meet();
    return shared.all;
}

// Add what another block has left, of a weight for each of a thread's heads.
__device__ inline void add_part(Own &own, const uint4 *found, const float (&by)[4]) {
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk) {
        const uint4 four = found[chunk * THREADS];
        const u32 words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (u32 nth = 0; nth < 8; ++nth)
            own.found[chunk][nth] += by[HEAD[nth]] * __uint_as_float(nth % 2 ? words[nth / 2] & 0xffff0000u : words[nth / 2] << 16);
    }
}

// Weigh what this block and others found, up to three partial outputs on their way. A thread fetches and reads its own
// numbers and no other's, so that nobody has to wait for anybody.
__device__ inline void weigh_parts(Own &own, float2 (&sums)[4], Shared &shared, char *staging, const Answers &to, u32 first_place,
                                   u32 others) {
    u32 to_fetch = others;
    const auto room = [&](u32 nth) { return (uint4 *)(nth % 3 == 2 ? staging : shared.parts[nth % 3]) + threadIdx.x; };
    const auto fetch_next = [&](u32 nth) {
        if (to_fetch) {
            const uint4 *const from = to.partial + (u64)(first_place + __ffs(to_fetch) - 1) * VALUES * THREADS;
#pragma unroll
            for (u32 chunk = 0; chunk < VALUES; ++chunk)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                             :: "r"(address(room(nth) + chunk * THREADS)), "l"(from + chunk * THREADS + threadIdx.x) : "memory");
            to_fetch &= to_fetch - 1;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    const u32 part = threadIdx.x / 4, quarter = threadIdx.x % 4;
    const bool is_there = part < JOINERS && others >> part & 1;
    uint4 found_sums[2];
    if (is_there)
#pragma unroll
        for (u32 half = 0; half < 2; ++half)
            found_sums[half] = look((const uint4 *)(to.sums + (first_place + part) * HEADS) + quarter * 2 + half);
#pragma unroll
    for (u32 nth = 0; nth < 3; ++nth) fetch_next(nth);
    if (is_there)
#pragma unroll
        for (u32 half = 0; half < 2; ++half) *((uint4 *)shared.part_sums[part] + quarter * 2 + half) = found_sums[half];
    meet();
    float maxima[4], by[4];
#pragma unroll
    for (u32 nth = 0; nth < 4; ++nth) maxima[nth] = sums[nth].x;
#pragma unroll 1
    for (u32 rest = others; rest; rest &= rest - 1)
#pragma unroll
        for (u32 nth = 0; nth < 4; ++nth) maxima[nth] = fmaxf(maxima[nth], shared.part_sums[__ffs(rest) - 1][head_of(nth)].x);
#pragma unroll
    for (u32 nth = 0; nth < 4; ++nth) {
        by[nth] = power(sums[nth].x - maxima[nth]);  // a tile that was taken has a row, so a maximum is a number
        sums[nth] = {maxima[nth], sums[nth].y * by[nth]};
    }
#pragma unroll
    for (u32 chunk = 0; chunk < VALUES; ++chunk)
#pragma unroll
        for (u32 nth = 0; nth < 8; ++nth) own.found[chunk][nth] *= by[HEAD[nth]];
#pragma unroll 1
    for (u32 nth = 0; others; ++nth, others &= others - 1) {
#pragma unroll
        for (u32 head = 0; head < 4; ++head) {
            const float2 other = shared.part_sums[__ffs(others) - 1][head_of(head)];
            by[head] = power(other.x - maxima[head]);
            sums[head].y += other.y * by[head];
        }
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        add_part(own, room(nth), by);
        fetch_next(nth + 3);
    }
    meet();  // the outputs will be laid out where partial ones were
}
// endregion

// What all tiles of a token came to, from this block's, or from those of the blocks that took some, if this one is the last.
__device__ inline void answer(Own &own, Shared &shared, const Answers &to, char *staging, uint4 item) {
    const u32 token = item.y, took = item.z % 65536, tiles = item.z / 65536;
    float2 sums[4];
    float by[4];
    lay_out_sums(own, shared);
    meet();
#pragma unroll
    for (u32 nth = 0; nth < 4; ++nth) sums[nth] = sums_of(shared, head_of(nth));
    if (took < tiles) {
        const u32 first_place = (token - to.first) * JOINERS, all = leave(own, sums, shared, to, first_place + item.w, item);
        if (all == 0) return;
        weigh_parts(own, sums, shared, staging, to, first_place, all & ~(1u << item.w));
    }
#pragma unroll
    for (u32 nth = 0; nth < 4; ++nth) by[nth] = sums[nth].y > 0.f ? __frcp_rn(sums[nth].y) : 0.f;
    lay_out<true>(own, staging, by);
    meet();
    for (u32 piece = threadIdx.x; piece < HEADS * 2 * CKV / 16; piece += THREADS)
        *((uint4 *)to.output + (u64)token * HEADS * 2 * CKV / 16 + piece)
            = *(const uint4 *)(staging + piece / 64 * FOUND_PITCH + piece % 64 * 16);
#pragma unroll
    for (u32 nth = 0; nth < 4; ++nth)
        if (threadIdx.x < 4) store_lse(to.lse + (u64)token * HEADS + head_of(nth), sums[nth]);
}

// The warps that compute. Of the marks, those of the block's first token are written down.
__device__ inline void attend_lists(Shared &shared, const Answers &to, float scale TRACED) {
    const u64 weights = operand(shared.weights);
    u32 heard = 0, fetched = 0;
#pragma unroll 1
    for (u32 nth = 0;; ++nth) {
        u32 valid = hear(shared, heard);
        if (nth == 0) MARK(0);
        if (valid == STOP) break;
        const u32 turn = nth % 2;
        const u64 queries = operand(shared.queries[turn]);
        wait_for(address(&shared.asked[turn]), nth / 2 & 1);
        Own own;
#pragma unroll
        for (u32 chunk = 0; chunk < VALUES; ++chunk)
#pragma unroll
            for (u32 number = 0; number < 8; ++number) own.found[chunk][number] = 0.f;
        for (u32 tile = 0; valid <= TILE; ++tile, ++fetched) {
            const u32 slot = fetched % STAGES;
            const u64 rows = operand(shared.ring[slot]);
            wait_for(address(&shared.arrived[slot]), fetched / STAGES & 1);
            if (nth + tile == 0) MARK(1);
            show_matrix_unit();
            float logits[8] = {};
            score(logits, rows, queries);
            if (nth + tile == 0) MARK(2);
            weigh_tile(own, shared, logits, tile, valid, scale);
            if (nth + tile == 0) MARK(3);
            add_values(own, rows, weights, valid);
            if (nth + tile == 0) MARK(4);
            if (threadIdx.x % 32 == 0) arrive(address(&shared.freed[slot]));
            valid = hear(shared, heard);
        }
        if (nth == 0) MARK(5);
        const uint4 item = shared.items[(heard - 1) % ITEMS];
        if (uniform(item.z) % 65536 > 0) answer(own, shared, to, shared.queries[turn][0][0], item);
        if (nth == 0) MARK(6);
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(address(&shared.answered[turn]));
    }
    MARK(7);
}

extern "C" __global__ void __launch_bounds__(2 * THREADS, RESIDENT)
decode(const char *q_nope, const char *q_pe, const char *ckv, const char *kpe, const int *indices, float scale, u32 tokens,
       char *output, float *lse, uint4 *partial, float2 *partial_sums, Token *state, uint4 *next_state
#ifdef TRACE
       , u32 *trace
#endif
) {
#ifdef TRACE
    const u32 started = (u32)clock64();
#endif
    extern __shared__ __align__(1024) char memory[];
    Shared &shared = *(Shared *)memory;
    const u32 warp = uniform(threadIdx.x / 32), token = blockIdx.x < tokens ? blockIdx.x : NONE;
    const Lists lists = {q_nope, q_pe, ckv, kpe, indices, tokens, state};
    int mine[PLACES];
    u32 ahead = NONE;
    if (warp >= WARPS && token != NONE) {
        read_list(mine, lists, token);
        if (threadIdx.x == THREADS) ahead = ask_for_tile(state[token]);
    } else if (threadIdx.x == 0) {
        const auto start = [](u64 &barrier, u32 count) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(&barrier)), "r"(count) : "memory");
        };
#pragma unroll
        for (u32 slot = 0; slot < STAGES; ++slot) start(shared.arrived[slot], THREADS), start(shared.freed[slot], WARPS);
#pragma unroll
        for (u32 turn = 0; turn < 2; ++turn) start(shared.asked[turn], THREADS), start(shared.answered[turn], WARPS);
#pragma unroll
        for (u32 item = 0; item < ITEMS; ++item) start(shared.told[item], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        if ((address(memory) & 1023) != 0) __trap();  // the swizzle is of addresses
    }
    __syncwarp();
    __syncthreads();  // the barriers are there
    if (warp >= WARPS) {
        fetch_lists(shared, lists, token, mine, ahead);
        return;
    }
    if (next_state)  // the launch after this one finds its counters at zero, and nobody has to wait at the end of this one
        for (u32 nth = blockIdx.x * THREADS + threadIdx.x; nth <= tokens; nth += gridDim.x * THREADS) next_state[nth] = {};
    attend_lists(shared, {output, lse, partial, partial_sums, state, first_seen(tokens)}, scale TRACING);
}
