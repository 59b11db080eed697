"""One launch as a CUDA graph whose kernel nodes are given all of their parameters before each replay.

A step is one kernel of the launch. A direct launch and a graph node read the same `Arguments`, so
what a replay is told is, byte for byte, what a direct launch would be told.
"""

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from parameters import Arguments, Layout, check_layout, differences, read

Values = Sequence[Sequence[int | float]]


class StaleGraph(RuntimeError):
    """A graph does not hold, or did not compute, what this call is about.

    The dispatcher has dropped the graph, and makes the check that found it in every call from now on:
    its `audit_every` or `shadow_every` is 1.
    """


@dataclass(frozen=True)
class Step:
    """One kernel of a launch: its name, the driver's handle, its grid, threads a block, dynamic shared
    memory in bytes, and its parameters.
    """

    name: str
    function: int
    grid: tuple[int, int, int]
    block: int
    shared: int
    layout: Layout


def check(result: tuple[Any, ...]) -> Any:
    """Take the value out of a driver call's result; RuntimeError if the call failed."""
    if int(result[0]) != 0:
        raise RuntimeError(f"CUDA driver: {result[0]!r}")
    return result[1] if len(result) > 1 else None


class Launch:
    """The steps of one launch in a chain, started directly, one driver call a step."""

    def __init__(self, driver: Any, steps: Sequence[Step]) -> None:
        """Make each step's buffer."""
        self.driver = driver
        self.steps = tuple(steps)
        self.functions = [driver.CUfunction(step.function) for step in self.steps]
        self.arguments = [Arguments(step.layout) for step in self.steps]
        self._packs = [arguments.pack for arguments in self.arguments]
        self._shapes = [  # all that a launch takes but the stream and what changes behind `pointer`
            ((function, *step.grid, step.block, 1, 1, step.shared), arguments.pointer)
            for step, function, arguments in zip(
                self.steps, self.functions, self.arguments, strict=True
            )
        ]

    def write(self, values: Values) -> None:
        """Write every parameter of every step."""
        for pack, given in zip(self._packs, values, strict=True):
            pack(*given)

    def start(self, stream: int) -> None:
        """Start all steps on `stream` with what was written last."""
        launch = self.driver.cuLaunchKernel
        for shape, pointer in self._shapes:
            (status,) = launch(*shape, stream, pointer, 0)
            if status:
                check((status,))


class PatchedGraph(Launch):
    """The same steps as the nodes of a graph; `update` hands the node what was written last."""

    def __init__(
        self,
        driver: Any,
        steps: Sequence[Step],
        values: Values,
        captured: Callable[[], Any] | None = None,
    ) -> None:
        """Build the graph with `values`, or take one that was `captured()` and find its nodes.

        Raises ValueError if the driver knows other parameters of a kernel than its step. What was
        made is given back when nobody holds this object any more, and when it fails halfway.
        """
        super().__init__(driver, steps)
        for step, function in zip(self.steps, self.functions, strict=True):
            check_layout(driver, function, step.layout)
        self.write(values)
        self.descriptions = [self._described(place) for place in range(len(self.steps))]
        self._made: list[tuple[str, Any]] = []
        self.close = weakref.finalize(self, give_back, driver, self._made)
        self.close.atexit = False  # the end of a process gives all back, and the driver may be gone
        try:
            self._build(captured)
        except BaseException:
            self.close()
            raise

    def _build(self, captured: Callable[[], Any] | None) -> None:
        """Make the graph and its executable copy, noting how to give each back."""
        driver = self.driver
        self.graph = check(driver.cuGraphCreate(0)) if captured is None else captured()
        self._made.append(("cuGraphDestroy", self.graph))
        if captured is None:
            self.nodes = self._added()
        else:
            self.nodes = find_nodes(driver, self.graph, self.steps)
        self.codes = [int(self._held(node).func) for node in self.nodes]
        self.executable = check(driver.cuGraphInstantiate(self.graph, 0))
        self._made.append(("cuGraphExecDestroy", self.executable))
        self._nodes = list(zip(self.nodes, self.descriptions, strict=True))

    def _added(self) -> list[Any]:
        nodes: list[Any] = []
        for description in self.descriptions:
            before = nodes[-1:]
            added = self.driver.cuGraphAddKernelNode(
                self.graph, before or None, len(before), description
            )
            nodes.append(check(added))
        return nodes

    def _described(self, place: int) -> Any:
        """Describe node `place`; the description points to our buffer, which lives as long."""
        step = self.steps[place]
        node = self.driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = self.functions[place]
        node.gridDimX, node.gridDimY, node.gridDimZ = step.grid
        node.blockDimX, node.blockDimY, node.blockDimZ = step.block, 1, 1
        node.sharedMemBytes = step.shared
        node.kernelParams = self.arguments[place].pointer
        return node

    # region: update
    def update(self) -> None:
        """Hand every node its parameters, all of them, from the buffer that was just written."""
        set_node, executable = self.driver.cuGraphExecKernelNodeSetParams, self.executable
        for node, description in self._nodes:
            (status,) = set_node(executable, node, description)
            if status:
                check((status,))

    # endregion

    # region: audited update
    def update_audited(self, steps: Sequence[Step], values: Values) -> None:
        """Hand every node its parameters by a way that can be read back, and compare.

        The driver has no call that reads an executable graph. So the nodes of the graph behind it
        are set and read back, and then the executable graph is updated from that very graph.
        Raises StaleGraph, before anything is launched, for a node that is not the step that this
        call needs, or that holds another value.
        """
        for node, description in self._nodes:
            check(self.driver.cuGraphKernelNodeSetParams(node, description))
        wrong = list(self.differences(steps, values))
        if wrong:
            raise StaleGraph(
                f"the graph holds another {', '.join(wrong)} than this call needs: "
                "nothing was launched; add it to the key or to the list of values"
            )
        check(self.driver.cuGraphExecUpdate(self.executable, self.graph))

    # endregion

    def differences(self, steps: Sequence[Step], values: Values) -> Iterator[str]:
        """Name what the nodes hold that these steps with these values would not."""
        if len(steps) != len(self.nodes):
            yield "number of kernels"
            return
        for place, (step, given) in enumerate(zip(steps, values, strict=True)):
            held, code = self._held(self.nodes[place]), self.steps[place].function
            for what, ours, theirs in (
                ("code", (int(held.func), code), (self.codes[place], step.function)),
                ("grid", (held.gridDimX, held.gridDimY, held.gridDimZ), step.grid),
                ("block", (held.blockDimX, held.blockDimY, held.blockDimZ), (step.block, 1, 1)),
                ("shared memory", held.sharedMemBytes, step.shared),
            ):
                if ours != theirs:
                    yield f"{step.name}.{what}"
            if step.layout != self.steps[place].layout:
                yield f"{step.name}.parameters"  # another kernel's, which cannot be read as this one's
                return
            found = read(int(held.kernelParams), step.layout.sizes)
            yield from (f"{step.name}.{name}" for name in differences(step.layout, found, given))

    def _held(self, node: Any) -> Any:
        """Read a node's parameters back; RuntimeError if the driver does not give a list of them."""
        held = check(self.driver.cuGraphKernelNodeGetParams(node))
        if not int(held.kernelParams):
            raise RuntimeError(
                "the driver gives no kernelParams of a node back: it cannot be audited"
            )
        return held

    def replay(self, stream: int) -> None:
        """Start the graph on `stream`; the driver orders it behind its own earlier launches."""
        (status,) = self.driver.cuGraphLaunch(self.executable, stream)
        if status:
            check((status,))


def give_back(driver: Any, made: list[tuple[str, Any]]) -> None:
    """Destroy what was made, last first; a launch that is still running ends first, by itself.

    A failure is a warning: it happens to be found here, in a call that has no part in it.
    """
    while made:
        name, handle = made.pop()
        (status,) = getattr(driver, name)(handle)
        if int(status):
            warnings.warn(f"{name}: {status!r}", RuntimeWarning, stacklevel=2)


def find_nodes(driver: Any, graph: Any, steps: Sequence[Step]) -> list[Any]:
    """Return the kernel node of each step of a captured graph, told by its function.

    Raises ValueError unless each step has just one node, and each kernel node is a step.
    """
    _, _, count = driver.cuGraphGetNodes(graph, 0)
    nodes = check(driver.cuGraphGetNodes(graph, count))
    kernel = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    nodes = [node for node in nodes if check(driver.cuGraphNodeGetType(node)) == kernel]
    functions = [int(check(driver.cuGraphKernelNodeGetParams(node)).func) for node in nodes]
    wanted = [step.function for step in steps]
    if sorted(functions) != sorted(wanted) or len(set(wanted)) != len(wanted):
        raise ValueError(
            f"the captured graph has {len(nodes)} kernels, and not one for each of "
            f"{', '.join(step.name for step in steps)}: capture the launch alone"
        )
    return [nodes[functions.index(function)] for function in wanted]
