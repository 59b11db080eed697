// Gather, read or copy rows through shared memory, by one bulk copy a row (cp.async.bulk).
//
// Each warp owns a ring of STAGES steps, with one mbarrier a step that counts the arriving bytes.
// Lane i issues the copy of the step's i-th row. Registers hold no data in flight.
// COPY: the copy engine also writes the rows out, so no thread touches them.

#include "rows.cuh"

constexpr u32 WARPS = THREADS / 32;
// A copy keeps one slot free of loads: the one that the write of the step before still reads.
constexpr u32 AHEAD = COPY ? STAGES - 1 : STAGES;
static_assert(AHEAD > 0, "a copy needs two stages");

__device__ inline void wait_for(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(barrier), "r"(parity) : "memory");
}

__device__ inline void fetch(u32 to, const char *from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
gather(const char *head, const char *tail, const int *index, u32 rows, u32 entries, void *out) {
    extern __shared__ __align__(128) char shared[];  // [WARPS][STAGES][STEP][ROW_BYTES], mbarriers
    Steps steps(index, rows, entries);
    const u32 group = steps.lane / LANES, member = steps.lane % LANES;
    const char *ring = shared + threadIdx.x / 32 * (STAGES * STEP * ROW_BYTES);
    const u32 barriers = shared_address(shared + WARPS * STAGES * STEP * ROW_BYTES)
                         + threadIdx.x / 32 * (STAGES * 8);
    const auto valid = [&](u32 step) {
        const u32 first = steps.first_entry(step);
        return first >= entries ? 0 : min(entries - first, STEP);
    };
    const auto issue = [&](u32 step) {
        steps.enter(step);
        const u32 row = steps.row(step, steps.lane % STEP), barrier = barriers + step % STAGES * 8;
        const u32 to = shared_address(ring + (step % STAGES * STEP + steps.lane) * ROW_BYTES);
        if (steps.lane == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(barrier), "r"(valid(step) * ROW_BYTES) : "memory");
        if (steps.lane < valid(step)) {
            fetch(to, head + (u64)row * HEAD_BYTES, HEAD_BYTES, barrier);
            if (TAIL_BYTES) fetch(to + HEAD_BYTES, tail + (u64)row * TAIL_BYTES, TAIL_BYTES, barrier);
        }
    };

    if (steps.lane == 0) {
#pragma unroll
        for (u32 stage = 0; stage < STAGES; ++stage)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barriers + stage * 8) : "memory");
        // The copy engine must see the barriers before it counts bytes on them.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
    for (u32 step = 0; step < AHEAD && step < steps.count; ++step) issue(step);
    for (u32 step = 0; step < steps.count; ++step) {
        const char *slot = ring + step % STAGES * STEP * ROW_BYTES;
        wait_for(barriers + step % STAGES * 8, step / STAGES & 1);
        if (COPY) {
            if (steps.lane == 0 && valid(step) > 0) {
                asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                             :: "l"((char *)out + (u64)steps.first_entry(step) * ROW_BYTES),
                                "r"(shared_address(slot)), "r"(valid(step) * ROW_BYTES) : "memory");
            }
            asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 1;" ::: "memory");
        } else {
#pragma unroll
            for (u32 part = 0; part < UNROLL; ++part) {
                const u32 place = part * SIDE + group;
                uint4 pieces[LOADS];
#pragma unroll
                for (u32 load = 0; load < LOADS; ++load)
                    pieces[load] = *(const uint4 *)(slot + place * ROW_BYTES + (load * LANES + member) * 16);
                deliver(pieces, steps.first_entry(step) + place, entries, out);
            }
        }
        __syncwarp();  // every lane has read the slot before it is filled again
        if (step + AHEAD < steps.count) issue(step + AHEAD);
    }
    if (COPY) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
