"""Work that is done again and again: on a GPU captured once as a CUDA graph and replayed."""

import torch


class Repeated:
    """Work of no arguments, on a stream of its own, so that several go on side by side.

    Work this small leaves most of a GPU idle. A graph is captured on the stream that it is replayed on,
    for cuBLAS keeps what it works in by stream, and two replays at a time must not share it. `replayed`
    says whether repetitions are replays: where the capture fails, all are eager.
    """

    def __init__(self, work, *, on_gpu, eager):
        """The first `eager` repetitions are as written, for what they allocate and choose."""
        self.work, self.on_gpu, self.eager = work, on_gpu, eager
        self.side = torch.cuda.Stream() if on_gpu else None
        self.graph, self.replayed, self.made = None, False, 0

    def again(self, before=lambda: None, after=lambda: None):
        """Do the work once more, between what is done `before` it and `after` it."""
        if not self.on_gpu:
            before()
            self.work()
            after()
            return
        if self.made == self.eager:
            self._capture()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            before()
            if self.replayed:
                self.graph.replay()
            else:
                self.work()
            after()
        self.made += 1

    def join(self):
        """Let the current stream wait for what was done so far."""
        if self.on_gpu:
            torch.cuda.current_stream().wait_stream(self.side)

    def end(self):
        """Wait for the work, and let its graph go with the memory that it holds."""
        if self.on_gpu:
            self.side.synchronize()
            self.graph = None

    def _capture(self):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.side):
                self.work()
        except RuntimeError as error:
            print(f"not captured, so every step is eager: {error}")  # noqa: T201 - for who reads it
        else:
            self.graph, self.replayed = graph, True
