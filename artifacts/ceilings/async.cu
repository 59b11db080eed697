// Gather, read or copy rows through shared memory, by 16-byte asynchronous copies (cp.async).
//
// Each thread owns its own slots of a ring of STAGES steps and reads back only what it copied
// itself, so waiting for its own groups is all the synchronisation that there is.

#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
gather(const char *head, const char *tail, const int *index, u32 rows, u32 entries, void *out) {
    extern __shared__ uint4 ring[];  // [STAGES][UNROLL * LOADS][THREADS]
    Steps steps(index, rows, entries);
    const u32 group = steps.lane / LANES, member = steps.lane % LANES;
    const auto slot = [&](u32 step, u32 part, u32 load) {
        return ring + ((step % STAGES * UNROLL + part) * LOADS + load) * THREADS + threadIdx.x;
    };
    const auto issue = [&](u32 step) {
        if (step < steps.count) {
            steps.enter(step);
#pragma unroll
            for (u32 part = 0; part < UNROLL; ++part) {
                const u32 row = steps.row(step, part * SIDE + group);
#pragma unroll
                for (u32 load = 0; load < LOADS; ++load)
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                                 :: "r"(shared_address(slot(step, part, load))),
                                    "l"(piece(head, tail, row, load, member)) : "memory");
            }
        }
        // An empty group is committed too: the wait below counts groups.
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

#pragma unroll
    for (u32 step = 0; step < STAGES; ++step) issue(step);
    for (u32 step = 0; step < steps.count; ++step) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");
        uint4 pieces[UNROLL][LOADS];
#pragma unroll
        for (u32 part = 0; part < UNROLL; ++part)
#pragma unroll
            for (u32 load = 0; load < LOADS; ++load) pieces[part][load] = *slot(step, part, load);
#pragma unroll
        for (u32 part = 0; part < UNROLL; ++part)
            deliver(pieces[part], steps.first_entry(step) + part * SIDE + group, entries, out);
        issue(step + STAGES);
    }
}
