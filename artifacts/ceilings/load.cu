// Gather, read or copy rows through registers, by plain 16-byte loads.
//
// A lane issues all UNROLL * LOADS loads of a step before it uses the first. What is in flight on
// a multiprocessor is that, times its resident lanes; the scheduler overlaps the warps' steps.
// RESIDENT is the number of blocks a multiprocessor must hold: left to itself the compiler saves
// registers by folding early, and only five of nine loads are under way (seen in the SASS).

#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
gather(const char *head, const char *tail, const int *index, u32 rows, u32 entries, void *out) {
    Steps steps(index, rows, entries);
    const u32 group = steps.lane / LANES, member = steps.lane % LANES;
    // region: loads
    for (u32 step = 0; step < steps.count; ++step) {
        steps.enter(step);
        uint4 pieces[UNROLL][LOADS];
#pragma unroll
        for (u32 part = 0; part < UNROLL; ++part) {
            const u32 row = steps.row(step, part * SIDE + group);
#pragma unroll
            for (u32 load = 0; load < LOADS; ++load)
                pieces[part][load] = load16(piece(head, tail, row, load, member));
        }
#pragma unroll
        for (u32 part = 0; part < UNROLL; ++part)
            deliver(pieces[part], steps.first_entry(step) + part * SIDE + group, entries, out);
    }
    // endregion
}
