// What the three gather kernels share: which rows a warp fetches, and how it folds or stores them.
//
// A list of `entries` entries asks for rows: entry i for row index[i] (INDEXED), or else for row
// i modulo `rows`, which makes the same kernel a plain read, or many reads of a small buffer.
// A row is HEAD_BYTES of one table, then TAIL_BYTES of a second one (0: there is none).
// LANES neighbouring lanes share a row, 16 bytes a lane and load, so 32 / LANES rows lie side by
// side in a warp; a step fetches UNROLL of those, and a warp owns whole tiles of TILE entries:
// tile w, w + warps, w + 2 warps ... No warp ever waits for another.
//
// Macros: INDEXED COPY HEAD_BYTES TAIL_BYTES LANES UNROLL STAGES TILE THREADS RESIDENT LOAD STORE

using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 ROW_BYTES = HEAD_BYTES + TAIL_BYTES;
constexpr u32 SIDE = 32 / LANES;
constexpr u32 STEP = UNROLL * SIDE;
constexpr u32 LOADS = ROW_BYTES / (16 * LANES);
constexpr u32 STEPS_PER_TILE = TILE / STEP;

static_assert(ROW_BYTES % (16 * LANES) == 0, "the lanes of a row must divide it into 16-byte pieces");
static_assert(HEAD_BYTES % (16 * LANES) == 0, "no load may straddle head and tail");
static_assert(TILE % STEP == 0 && TILE <= 32, "a tile is whole steps, and one entry a lane");

// The steps of one warp. Row numbers are read a tile ahead of their use, one a lane, so that no
// row waits for its own index except the first.
struct Steps {
    const int *index;
    u32 rows, entries, lane, warp, warps, count, current, next;

    __device__ Steps(const int *index, u32 rows, u32 entries)
        : index(index), rows(rows), entries(entries), lane(threadIdx.x % 32),
          // Through a shuffle the compiler knows that all lanes of a warp agree on the number.
          warp(__shfl_sync(0xffffffffu, blockIdx.x * (THREADS / 32) + threadIdx.x / 32, 0)),
          warps(gridDim.x * (THREADS / 32)) {
        const u32 tiles = (entries + TILE - 1) / TILE;
        count = warp < tiles ? ((tiles - 1 - warp) / warps + 1) * STEPS_PER_TILE : 0;
        current = row_of(0);
        next = row_of(1);
    }

    // The row of this lane's entry in the warp's n-th tile; row 0 past the end, which is harmless.
    __device__ u32 row_of(u32 nth) const {
        const u64 entry = (warp + (u64)nth * warps) * TILE + lane;
        if (lane >= TILE || entry >= entries) return 0;
        return INDEXED ? (u32)__ldg(index + entry) : (u32)entry % rows;
    }

    // Every lane calls this once a step, in order, before it asks for rows of that step.
    __device__ void enter(u32 step) {
        if (step > 0 && step % STEPS_PER_TILE == 0) {
            current = next;
            next = row_of(step / STEPS_PER_TILE + 1);
        }
    }

    __device__ u32 first_entry(u32 step) const {
        return (warp + step / STEPS_PER_TILE * warps) * TILE + step % STEPS_PER_TILE * STEP;
    }

    __device__ u32 row(u32 step, u32 place) const {
        return __shfl_sync(0xffffffffu, current, step % STEPS_PER_TILE * STEP + place);
    }
};

// Where the 16 bytes lie that lane `member` of a row's lanes fetches in load number `load`.
__device__ inline const char *piece(const char *head, const char *tail, u32 row, u32 load, u32 member) {
    const u32 start = load * LANES * 16;
    return start < HEAD_BYTES ? head + (u64)row * HEAD_BYTES + start + member * 16
                              : tail + (u64)row * TAIL_BYTES + (start - HEAD_BYTES) + member * 16;
}

__device__ inline u32 sum(uint4 value) { return value.x + value.y + value.z + value.w; }

// Volatile, so that the loads of a step stay together before the first use of any.
__device__ inline uint4 load16(const char *from) {
    uint4 value;
    asm volatile(LOAD " {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(from));
    return value;
}

__device__ inline void store16(char *to, uint4 value) {
    asm volatile(STORE " [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
}

__device__ inline u32 shared_address(const void *pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

// One row, held as LOADS pieces a lane: written out whole (COPY), or as its wrapping 32-bit sum.
__device__ inline void deliver(const uint4 (&pieces)[LOADS], u32 entry, u32 entries, void *out) {
    const u32 member = threadIdx.x % LANES;
    if (COPY) {
        char *row = (char *)out + (u64)entry * ROW_BYTES + member * 16;
#pragma unroll
        for (u32 load = 0; load < LOADS; ++load)
            if (entry < entries) store16(row + load * LANES * 16, pieces[load]);
        return;
    }
    u32 total = 0;
#pragma unroll
    for (u32 load = 0; load < LOADS; ++load) total += sum(pieces[load]);
#pragma unroll
    for (u32 distance = LANES / 2; distance > 0; distance /= 2)
        total += __shfl_xor_sync(0xffffffffu, total, distance);
    if (member == 0 && entry < entries) ((u32 *)out)[entry] = total;
}
