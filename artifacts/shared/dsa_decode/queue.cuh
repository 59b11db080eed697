// What the blocks know of each other's work: which tiles of which list are taken, and where there are some left.
//
// It is all in memory, and all zero at launch. attend.py keeps two of it for each stream, and a launch clears the one that
// the next will use. tests/queueing.py has the same steps in Python.
//
// Macros: LEAST THIEVES LOOKS

#pragma once

constexpr u32 JOINED = 1 << 16, STOLEN = 1u << 31, NONE = ~0u;
constexpr u32 SEEN = 8;  // tokens that a lane looks at, the warp at 32 times as many

// What the blocks know of a token, in memory: all zero at launch. One more than there are tokens; the last counts tickets.
struct Token {
    u32 taken;     // tiles; and, JOINED each, the thieves that came
    u32 tiles;     // of its list, once a block has read it: they all write the same
    u64 answered;  // whose outputs are in memory: a bit a block, 0 of the one that began and 1.. of the thieves, as they came;
                   // and, ANSWERED each, their tiles
};

constexpr u64 ANSWERED = 1ull << 32;
static_assert(THIEVES < 32, "a bit for each block of a token");

struct Lists {
    const char *q_nope, *q_pe, *ckv, *kpe;
    const int *indices;
    u32 tokens;
    Token *state;
};

// What other blocks may be writing.
__device__ inline u32 look(const u32 *at) {
    u32 word;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
    return word;
}

__device__ inline uint4 look(const uint4 *at) {
    uint4 words;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(at) : "memory");
    return words;
}

// Say that a block's tiles are answered in memory. Returns all blocks of the token, a bit each, if nothing is missing, or 0.
// What the threads of the block stored ahead of a barrier is seen before this, and what other blocks stored before they said
// so is seen after it, by all threads behind another barrier.
__device__ inline u32 hand_in(Token &token, u32 took, u32 nth, u32 tiles) {
    const u64 mine = took * ANSWERED + (1u << nth);
    u64 before;
    asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], %2;" : "=l"(before) : "l"(&token.answered), "l"(mine) : "memory");
    return (before + mine) / ANSWERED == tiles ? (u32)(before + mine) : 0;
}

// Ask for a tile of a list. Whoever uses the answer, modulo JOINED, waits for it.
__device__ inline u32 ask_for_tile(Token &token) { return atomicAdd(&token.taken, 1); }

// Come to a list as a thief, and say as which one. Beyond THIEVES they are too many: who takes a tile has to answer.
__device__ inline u32 join(Token &token) { return atomicAdd(&token.taken, JOINED) / JOINED + 1; }

// The first token that others may join: those before were begun long before the last ones.
__device__ inline u32 first_seen(u32 tokens) { return tokens - min(tokens, 32 * SEEN); }

// region: steal
// Find a list that is worth joining, or NONE.
// The chance of a list is the tiles that it has left, and blocks that look at the same time are spread evenly over these:
// their numbers times the golden ratio. Blocks that have no token of their own to begin with wait until all lists have been
// read, and are dealt out, in the order of their numbers, by what each list has left beyond an equal share.
__device__ inline u32 find_list(const Lists &lists, u32 &looks, bool begins) {
    const u32 lane = threadIdx.x % 32, first = first_seen(lists.tokens);
    while (looks++ < LOOKS) {
        u32 left[SEEN], own = 0;
        bool unread = false;
#pragma unroll
        for (u32 nth = 0; nth < SEEN; ++nth) {
            const u32 token = first + nth * 32 + lane;
            const uint4 seen = token < lists.tokens ? look((const uint4 *)(lists.state + token)) : uint4{1, 1, 0, 0};
            const u32 taken = seen.x % JOINED;
            left[nth] = seen.x / JOINED < THIEVES && seen.y >= taken + LEAST ? seen.y - taken : 0;
            own += left[nth];
            unread = unread || seen.y == 0;
        }
        unread = __any_sync(0xffffffffu, unread);
        if (begins && unread) continue;
        if (begins) {
            const u32 total = __reduce_add_sync(0xffffffffu, own);
            own = 0;
#pragma unroll
            for (u32 nth = 0; nth < SEEN; ++nth) {
                left[nth] = max(left[nth] * gridDim.x, total) - total;
                own += left[nth];
            }
        }
        u32 upto = own;
#pragma unroll
        for (u32 distance = 1; distance < 32; distance *= 2) {
            const u32 other = __shfl_up_sync(0xffffffffu, upto, distance);
            upto += lane >= distance ? other : 0;
        }
        const u32 all = __shfl_sync(0xffffffffu, upto, 31);
        if (all > 0) {
            const u32 at = begins ? (blockIdx.x - lists.tokens) * all / (gridDim.x - lists.tokens)
                                  : __umulhi((blockIdx.x + gridDim.x * looks) * 0x9e3779b9u, all);
            u32 below = upto - own, found = 0;
#pragma unroll
            for (u32 nth = 0; nth < SEEN; ++nth) {
                if (below <= at) found = left[nth] > 0 ? first + nth * 32 + lane : found;
                below += left[nth];
            }
            return __shfl_sync(0xffffffffu, found, __ffs(__ballot_sync(0xffffffffu, at < upto)) - 1) | STOLEN;
        }
        if (!unread) break;
    }
    return NONE;
}

// A token that nobody has begun, or one that is worth joining, or NONE.
__device__ inline u32 find_token(const Lists &lists, bool &tickets, u32 &looks, bool begins) {
    if (begins) {
        u32 first_looks = 0;
        const u32 token = find_list(lists, first_looks, true);
        if (token != NONE) return token;
    }
    if (tickets) {
        u32 token = threadIdx.x % 32 == 0 ? gridDim.x + atomicAdd(&lists.state[lists.tokens].taken, 1) : 0;
        token = uniform(token);
        if (token < lists.tokens) return token;
        tickets = false;
    }
    return find_list(lists, looks, false);
}
// endregion
