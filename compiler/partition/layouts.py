"""Layouts for the values of a graph: chosen so that as little as possible has to move.

Operators that need a certain layout have it; what computes element by element follows its
first operand; aliases rename.  Values that the host packs lie as their first reader wishes.
Where a reader needs other packed bytes than its operand has, an Identity between them moves it.
"""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.layout import (
    ALIASES,
    ELEMENTWISE,
    MOVES,
    REQUIRED,
    C,
    Layout,
    factors_of_axes,
    image_layout,
    packed_axes,
    resized,
    rows_layout,
    weights_layout,
    without_axes,
)
from tilewright.compiler.ir.packed import alias_layout, alias_source
from tilewright.hw.config import Config
from tilewright.runtime.attributes import get_int, get_ints


def assign_layouts(graph: Graph, config: Config) -> Graph:
    """Return the graph with a layout for every value that can have one."""
    return _Assignment(graph, config).run()


class _Assignment:
    def __init__(self, graph: Graph, config: Config) -> None:
        self._graph, self._config = graph, config
        self._values = dict(graph.values)
        self._layouts: dict[str, Layout] = {}
        self._nodes: list[Node] = []
        self._moved: dict[tuple[str, tuple[object, ...]], str] = {}
        self._anchors = self._anchored()
        self._names = {*graph.values, *(node.name for node in graph.nodes)}

    def run(self) -> Graph:
        wishes = self._wishes()
        for name in self._graph.input_names:
            self._set(name, wishes.get(name))
        for node in self._graph.nodes:
            inputs = list(node.inputs)
            layouts = self._outputs(node, inputs)
            self._nodes.append(replace(node, inputs=tuple(inputs)))
            for name in node.outputs:
                self._set(name, layouts or wishes.get(name))
        return replace(self._graph, nodes=tuple(self._nodes), values=self._values)

    def _set(self, name: str, layout: Layout | None) -> None:
        shape = self._graph.type(name).static_shape
        if 0 in shape:
            return
        self._layouts[name] = layout or image_layout(shape)
        self._values[name] = replace(self._values[name], layout=self._layouts[name])

    def _outputs(self, node: Node, inputs: list[str]) -> Layout | None:
        """The layout of a node's output; inputs that lie otherwise are exchanged."""
        if node.op in ALIASES:
            source = self._layouts.get(inputs[0])
            return None if source is None else alias_layout(self._graph, node, source)
        if not self._is_stored(node):
            return None
        y = self._graph.type(node.outputs[0]).static_shape
        if node.op in REQUIRED:
            for i in range(min(2, len(inputs))):
                if inputs[i] in self._layouts:
                    inputs[i] = self._lying(inputs[i], self._required(node, i))
            return REQUIRED[node.op](y)
        if node.op in MOVES or node.op == "ReduceMean":
            return self._move(node, inputs)
        if node.op not in ELEMENTWISE:
            return None
        shapes = {name: self._graph.type(name).static_shape for name in inputs}
        lead = next((n for n in inputs if n in self._layouts and shapes[n] == y), None)
        result = self._layouts[lead] if lead else image_layout(y)
        result = self._anchors.get(node.outputs[0], result)
        for i, name in enumerate(inputs):
            if name in self._layouts:
                inputs[i] = self._lying(name, _broadcast(result, y, shapes[name]))
        return result

    def _required(self, node: Node, index: int) -> Layout | None:
        """The layout of an input of an operator that needs a certain one."""
        shape = self._graph.type(node.inputs[index]).static_shape
        if index == 1:
            return weights_layout(shape, self._config)
        return REQUIRED[node.op](shape)

    def _move(self, node: Node, inputs: list[str]) -> Layout | None:
        """The layout of a move's output; a Concat of channels needs all parts to lie like it."""
        source, y = self._layouts.get(inputs[0]), self._graph.type(node.outputs[0]).static_shape
        result = self._anchors.get(node.outputs[0])
        if result is None and source is not None:
            result = self._moved_layout(node, node.inputs[0], source)
        if result is None or node.op != "Concat":
            return result
        joined = factors_of_axes(result, y)[get_int(node.attributes, "axis")]
        if any(i in result.groups[C] for i in joined):
            for i, name in enumerate(inputs):
                if name in self._layouts:
                    shape = self._graph.type(name).static_shape
                    inputs[i] = self._lying(name, resized(result, y, shape))
        return result

    def _reduced(self, node: Node, source: Layout) -> Layout:
        """The layout of a reduction's output: its input's without the axes that are gone."""
        shape = self._graph.type(node.inputs[0]).static_shape
        axes = get_ints(node.attributes, "axes", tuple(range(len(shape))))
        return without_axes(source, shape, [axis % len(shape) for axis in axes])

    def _moved_layout(self, node: Node, name: str, source: Layout) -> Layout | None:
        """The layout of a move's output that is most like that of one of its inputs."""
        if node.op == "ReduceMean":
            return self._reduced(node, source)
        x, y = (self._graph.type(n).static_shape for n in (name, node.outputs[0]))
        result = resized(source, x, y)
        if result is not None:
            return result
        channels, last = source.groups[C], factors_of_axes(source, x)[-1] if x else []
        by_rows = bool(channels) and channels[-1] in last
        return (rows_layout(y) if by_rows else None) or image_layout(y)

    def _is_stored(self, node: Node) -> bool:
        names = [n for n in (*node.inputs, *node.outputs) if n and n not in self._graph.constants]
        kinds = [self._graph.type(n) for n in names]
        return all(k.dtype in ("int8", "uint8", "int32") and 0 not in k.shape for k in kinds)

    def _lying(self, name: str, layout: Layout | None) -> str:
        """The value, or a copy of it whose packed bytes are as wanted."""
        if layout is None:
            return name
        wanted = packed_axes(layout, self._config)
        if packed_axes(self._layouts[name], self._config) == wanted:
            return name
        if (name, wanted) not in self._moved:
            moved = self._fresh(f"{name}.moved")
            self._values[moved] = Value(moved, self._graph.type(name), layout)
            self._nodes.append(Node("Identity", self._fresh(f"{name}.move"), (name,), (moved,)))
            self._moved[name, wanted] = moved
        return self._moved[name, wanted]

    def _fresh(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self._names:
            candidate, count = f"{name}.{count}", count + 1
        self._names.add(candidate)
        return candidate

    def _wishes(self) -> dict[str, Layout]:
        """For each value the layout that its first reader on the machine would need."""
        wishes: dict[str, Layout] = {}
        for node in reversed(self._graph.nodes):
            result = wishes.get(node.outputs[0])
            if node.op in ELEMENTWISE or node.op == "Concat":
                result = self._anchors.get(node.outputs[0], result)
            for name in (n for n in node.inputs if n and n not in self._graph.constants):
                wish = self._wish(node, name, result)
                if wish is not None:
                    wishes[name] = wish
        return wishes

    def _anchored(self) -> dict[str, Layout]:
        """The layouts that follow from operators that need a certain one."""
        anchors: dict[str, Layout] = {}
        for node in self._graph.nodes:
            y, x = node.outputs[0], node.inputs[0] if node.inputs else ""
            shape = self._graph.type(y).static_shape
            found: Layout | None = None
            if node.op in ALIASES:
                found = alias_layout(self._graph, node, anchors[x]) if x in anchors else None
            elif not self._is_stored(node):
                continue
            elif node.op in REQUIRED:
                found = REQUIRED[node.op](shape)
            elif node.op in MOVES or node.op == "ReduceMean":
                found = next(
                    (self._moved_layout(node, n, anchors[n]) for n in node.inputs if n in anchors),
                    None,
                )
            elif node.op in ELEMENTWISE:
                alike = [n for n in node.inputs if self._graph.type(n).static_shape == shape]
                found = next((anchors[n] for n in alike if n in anchors), None)
            if found is not None:
                anchors[y] = found
        return anchors

    def _wish(self, node: Node, name: str, result: Layout | None) -> Layout | None:
        shape = self._graph.type(name).static_shape
        if node.op in ALIASES:
            return None if result is None else alias_source(self._graph, node, result)
        if node.op in REQUIRED and self._is_stored(node):
            return self._required(node, node.inputs.index(name))
        if node.op == "ReduceMean" and self._is_stored(node):
            last = len(shape) - 1 in get_ints(node.attributes, "axes", (len(shape) - 1,))
            return image_layout(shape) if last else rows_layout(shape)
        if node.op in ELEMENTWISE and self._is_stored(node) and result is not None:
            return _broadcast(result, self._graph.type(node.outputs[0]).static_shape, shape)
        if node.op == "Concat" and self._is_stored(node) and result is not None:
            return resized(result, self._graph.type(node.outputs[0]).static_shape, shape)
        return None


def _broadcast(layout: Layout, shape: tuple[int, ...], part: tuple[int, ...]) -> Layout:
    """The layout of an operand that is broadcast to a shape that lies in `layout`."""
    lead = len(shape) - len(part)
    aligned = (1,) * lead + part
    dropped = [i for i, size in enumerate(aligned) if size != shape[i]]
    return without_axes(layout, shape, dropped) if dropped else layout
