"""Vector instructions for codes of many atoms: sweeps over blocks of columns, and triangular factors."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from spdcluster.expression.lanes import INDEX, LOOSE, SHORT_INDEX, Lanes, arrays_of

LANES = 8
N_VECTORS = 4
BLOCK_WIDTH = N_VECTORS * LANES  # columns of a block, whose sums fit into registers


@intrinsic
def gaussian_on_block(context: Any, columns: Any, active: Any, i: Any, out: Any) -> Any:
    """``out[i, j] = exp(-|active[i] - columns[:, j]|^2)`` for the `BLOCK_WIDTH` columns of a block, and i + 1.

    `columns` (p, BLOCK_WIDTH), `active` (> i + 1, p) and `out` (> i + 1, BLOCK_WIDTH) of one precision. Relative
    error of the exponential alone: 4 units of the last place.
    """
    real = columns.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        points, others, _, values = arrays_of(context, builder, signature, arguments, 4)
        eight = _Eight(builder, real)

        def term(here: Any, there: Any) -> Any:
            apart = builder.fsub(here, there, flags=LOOSE)
            return eight.times(apart, apart)

        first = builder.mul(arguments[2], ir.Constant(INDEX, N_VECTORS))
        for v, total in enumerate(eight.along(points, others.data, arguments[2], term)):
            place = builder.add(first, ir.Constant(INDEX, v))
            eight.store(eight.exp_negative(total), values.data, eight.at(place))
        return context.get_dummy_value()

    return types.void(columns, active, i, out), generate


@intrinsic
def combine_on_block(
    context: Any, K: Any, places: Any, factors: Any, start: Any, stop: Any, out: Any
) -> Any:
    """``out[j] = sum_a factors[a] K[places[a], j]`` over ``start <= a < stop``, for a block of columns.

    `K` (u, BLOCK_WIDTH), `factors` and `out` (BLOCK_WIDTH,) of one precision, `places` int32. The sums stay in
    registers.
    """
    real = K.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = arrays_of(context, builder, signature, arguments, 3)
        result = make_array(signature.args[5])(context, builder, arguments[5]).data
        values, rows, weights = (array.data for array in arrays)
        first, last = arguments[3], arguments[4]
        eight = _Eight(builder, real)
        # two sums of each, so that one waits less for the other
        sums = [cgutils.alloca_once(builder, eight.type) for _ in range(2 * N_VECTORS)]
        for part in sums:
            builder.store(eight.constant(0.0), part)

        def add(a: Any, parts: list[Any]) -> None:
            row = builder.sext(builder.load(builder.gep(rows, [a])), INDEX)
            weight = eight.splat(builder.load(builder.gep(weights, [a])))
            own = builder.mul(row, ir.Constant(INDEX, N_VECTORS))
            for v, part in enumerate(parts):
                value = eight.load(values, eight.at(builder.add(own, ir.Constant(INDEX, v))))
                builder.store(eight.plus(builder.load(part), eight.times(weight, value)), part)

        count, two = builder.sub(last, first), ir.Constant(INDEX, 2)
        pairs = builder.sdiv(count, two)
        with cgutils.for_range(builder, pairs) as loop:
            a = builder.add(first, builder.mul(loop.index, two))
            add(a, sums[:N_VECTORS])
            add(builder.add(a, ir.Constant(INDEX, 1)), sums[N_VECTORS:])
        with cgutils.for_range(builder, builder.sub(count, builder.mul(pairs, two))):
            add(builder.sub(last, ir.Constant(INDEX, 1)), sums[:N_VECTORS])
        for v in range(N_VECTORS):
            total = eight.plus(builder.load(sums[v]), builder.load(sums[N_VECTORS + v]))
            eight.store(total, result, ir.Constant(INDEX, v * LANES))
        return context.get_dummy_value()

    return types.void(K, places, factors, start, stop, out), generate


@intrinsic
def subtract_four_rows(
    context: Any, x: Any, start: Any, U: Any, i: Any, n: Any, w0: Any, w1: Any, w2: Any, w3: Any
) -> Any:
    """``x[start : start + n] -= sum_r w_r U[i + r, start : start + n]`` of contiguous float64 arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, _, matrix = arrays_of(context, builder, signature, arguments, 3)
        eight = _Eight(builder, types.float64)
        here = builder.gep(target.data, [arguments[1]])
        rows = _four_rows(builder, matrix, arguments[3], arguments[1])
        weights = [eight.splat(builder.fneg(w)) for w in arguments[5:]]

        def step(at: Any, mask: Any) -> None:
            parts = [
                eight.times(weight, eight.load_some(row, at, mask))
                for weight, row in zip(weights, rows, strict=True)
            ]
            total = eight.plus(eight.load_some(here, at, mask), parts[0])
            total = eight.plus(eight.plus(total, parts[1]), eight.plus(parts[2], parts[3]))
            eight.store_some(total, here, at, mask)

        eight.over(arguments[4], step)
        return context.get_dummy_value()

    return types.void(x, start, U, i, n, w0, w1, w2, w3), generate


@intrinsic
def four_rows_times(context: Any, U: Any, i: Any, n: Any, x: Any, start: Any, out: Any) -> Any:
    """``out[i + r] = U[i + r, start : start + n] . x[start : start + n]`` for r < 4, contiguous float64 arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, _, _, factor, _, result = arrays_of(context, builder, signature, arguments, 6)
        eight = _Eight(builder, types.float64)
        rows = _four_rows(builder, matrix, arguments[1], arguments[4])
        other = builder.gep(factor.data, [arguments[4]])
        sums = [cgutils.alloca_once(builder, eight.type) for _ in rows]
        for part in sums:
            builder.store(eight.constant(0.0), part)

        def step(at: Any, mask: Any) -> None:
            there = eight.load_some(other, at, mask)
            for row, part in zip(rows, sums, strict=True):
                product = eight.times(eight.load_some(row, at, mask), there)
                builder.store(eight.plus(builder.load(part), product), part)

        eight.over(arguments[2], step)
        for row, part in enumerate(sums):
            place = builder.add(arguments[1], ir.Constant(INDEX, row))
            builder.store(eight.sum(builder.load(part)), builder.gep(result.data, [place]))
        return context.get_dummy_value()

    return types.void(U, i, n, x, start, out), generate


@intrinsic
def rotate_rows(context: Any, U: Any, i: Any, first: Any, n: Any, cos: Any, sin: Any) -> Any:
    """Rotate n entries of row i with those of the next, from column `first` on, and move them left in row i.

    ``U[i, b - 1], U[i + 1, b] = cos U[i, b] + sin U[i + 1, b], cos U[i + 1, b] - sin U[i, b]``, float64.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (matrix,) = arrays_of(context, builder, signature, arguments, 1)
        eight = _Eight(builder, types.float64)
        i, one = arguments[1], ir.Constant(INDEX, 1)
        upper = _in_row(builder, matrix, i, arguments[2])
        lower = _in_row(builder, matrix, builder.add(i, one), arguments[2])
        to_upper = builder.gep(upper, [ir.Constant(INDEX, -1)])
        cos, sin = eight.splat(arguments[4]), eight.splat(arguments[5])
        minus = eight.splat(builder.fneg(arguments[5]))

        def step(at: Any, mask: Any) -> None:
            high, low = eight.load_some(upper, at, mask), eight.load_some(lower, at, mask)
            turned = eight.plus(eight.times(cos, high), eight.times(sin, low))
            eight.store_some(turned, to_upper, at, mask)
            turned = eight.plus(eight.times(cos, low), eight.times(minus, high))
            eight.store_some(turned, lower, at, mask)

        eight.over(arguments[3], step)
        return context.get_dummy_value()

    return types.void(U, i, first, n, cos, sin), generate


@intrinsic
def copy_entries(context: Any, source: Any, start: Any, target: Any, at: Any, n: Any) -> Any:
    """Copy n entries of contiguous float64 arrays of any shape, by their place in memory, ascending."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        before, _, after = arrays_of(context, builder, signature, arguments, 3)
        eight = _Eight(builder, types.float64)
        here = builder.gep(before.data, [arguments[1]])
        there = builder.gep(after.data, [arguments[3]])

        def step(at: Any, mask: Any) -> None:
            eight.store_some(eight.load_some(here, at, mask), there, at, mask)

        eight.over(arguments[4], step)
        return context.get_dummy_value()

    return types.void(source, start, target, at, n), generate


def _in_row(builder: Any, matrix: Any, i: Any, j: Any) -> Any:
    """Pointer to an entry of a contiguous matrix."""
    width = builder.extract_value(matrix.shape, 1)
    return builder.gep(matrix.data, [builder.add(builder.mul(i, width), j)])


def _four_rows(builder: Any, matrix: Any, i: Any, first: Any) -> list[Any]:
    """Pointers into four rows of a contiguous matrix, at one column."""
    rows = [builder.add(i, ir.Constant(INDEX, row)) for row in range(4)]
    return [_in_row(builder, matrix, row, first) for row in rows]


class _Eight(Lanes):
    """Eight floats at once, or as many as are left of an array."""

    def __init__(self, builder: Any, real: Any) -> None:
        super().__init__(builder, real, LANES)

    def along(self, points: Any, others: Any, i: Any, term: Any) -> list[Any]:
        """Sum ``term(others[i, q], points[q])`` over the coordinates q of a block of columns, for i and i + 1.

        Two rows together: one would wait for its own sums.
        """
        builder = self.builder
        p, both = builder.extract_value(points.shape, 0), range(2)
        sums = [cgutils.alloca_once(builder, self.type) for _ in range(2 * N_VECTORS)]
        for part in sums:
            builder.store(self.constant(0.0), part)
        own = [builder.mul(builder.add(i, ir.Constant(INDEX, row)), p) for row in both]
        with cgutils.for_range(builder, p) as loop:
            places = [builder.add(start, loop.index) for start in own]
            here = [self.splat(builder.load(builder.gep(others, [place]))) for place in places]
            first = builder.mul(loop.index, ir.Constant(INDEX, N_VECTORS))
            for v in range(N_VECTORS):
                place = builder.add(first, ir.Constant(INDEX, v))
                there = self.load(points.data, self.at(place))
                for row in both:
                    part = sums[row * N_VECTORS + v]
                    builder.store(self.plus(builder.load(part), term(here[row], there)), part)
        return [builder.load(part) for part in sums]

    def over(self, n: Any, step: Any) -> None:
        """Call ``step(at, mask)`` for every eight of n entries; the mask is None where all eight are there."""
        builder, width = self.builder, ir.Constant(INDEX, LANES)
        eights = builder.sdiv(n, width)
        with cgutils.for_range(builder, eights) as loop:
            step(builder.mul(loop.index, width), None)
        done = builder.mul(eights, width)
        rest = builder.sub(n, done)
        with builder.if_then(builder.icmp_signed(">", rest, ir.Constant(INDEX, 0))):
            step(done, self.first(rest))

    def first(self, count: Any) -> Any:
        """The mask of the first `count` of eight."""
        lanes = ir.VectorType(SHORT_INDEX, LANES)
        nothing = ir.Constant(lanes, ir.Undefined)
        one = self.builder.insert_element(
            nothing, self.builder.trunc(count, SHORT_INDEX), ir.Constant(SHORT_INDEX, 0)
        )
        every = self.builder.shuffle_vector(one, nothing, ir.Constant(lanes, [0] * LANES))
        return self.builder.icmp_signed("<", ir.Constant(lanes, list(range(LANES))), every)

    def load_some(self, pointer: Any, start: Any, mask: Any) -> Any:
        if mask is None:
            return self.load(pointer, start)
        place = self.builder.bitcast(self.builder.gep(pointer, [start]), self.type.as_pointer())
        kind = ir.FunctionType(
            self.type, [self.type.as_pointer(), SHORT_INDEX, mask.type, self.type]
        )
        name = f"llvm.masked.load.{self.suffix}.p0{self.suffix}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        align = ir.Constant(SHORT_INDEX, 4 if self.real == types.float32 else 8)
        return self.builder.call(function, [place, align, mask, self.constant(0.0)])

    def store_some(self, value: Any, pointer: Any, start: Any, mask: Any) -> None:
        if mask is None:
            self.store(value, pointer, start)
            return
        place = self.builder.bitcast(self.builder.gep(pointer, [start]), self.type.as_pointer())
        kind = ir.FunctionType(
            ir.VoidType(), [self.type, self.type.as_pointer(), SHORT_INDEX, mask.type]
        )
        name = f"llvm.masked.store.{self.suffix}.p0{self.suffix}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        align = ir.Constant(SHORT_INDEX, 4 if self.real == types.float32 else 8)
        self.builder.call(function, [value, place, align, mask])
