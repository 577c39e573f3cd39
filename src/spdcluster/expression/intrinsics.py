"""Vector instructions that numba has no word for, written for LLVM."""

from math import factorial, log
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

OF_SAME_SIZE = {
    types.float32: types.int32,
    types.float64: types.int64,
    types.int32: types.float32,
    types.int64: types.float64,
}
LANES = 8
LOOSE = ("contract", "reassoc", "nsz")
INDEX, SHORT_INDEX = ir.IntType(64), ir.IntType(32)
# of 2^x in each precision: terms of its series on [-1/2, 1/2], bits of the fraction, largest -x
EXPONENTIAL = {types.float32: (8, 23, 126.0), types.float64: (14, 52, 1000.0)}


@intrinsic
def bits_of(context: Any, value: Any) -> Any:
    """The bits of a float as an integer, or of an integer as a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return OF_SAME_SIZE[value](value), generate


@intrinsic
def largest_of_eight(
    context: Any, g: Any, sources: Any, weights: Any, rests: Any, i: Any, scale: Any
) -> Any:
    """``max_lane |sum_a weights[i, a, lane] g[sources[i, a]]| + scale rests[i, lane]`` over eight lanes.

    `g` (n,) float32, `sources` (m, s) int32, `weights` (m, s, 8) and `rests` (m, 8) float32, all
    contiguous. Written out, because the compiler makes no vector instruction of loops over eight.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 4)
        values, places, factors, remains = (array.data for array in arrays)
        row, n_sources = arguments[4], builder.extract_value(arrays[1].shape, 1)
        eight = _Lanes(builder, types.float32)
        first = builder.mul(row, n_sources)
        total = cgutils.alloca_once_value(builder, eight.constant(0.0))
        with cgutils.for_range(builder, n_sources) as loop:
            place = builder.add(first, loop.index)
            source = builder.sext(builder.load(builder.gep(places, [place])), INDEX)
            value = eight.splat(builder.load(builder.gep(values, [source])))
            part = eight.times(value, eight.load(factors, eight.at(place)))
            builder.store(eight.plus(builder.load(total), part), total)
        rest = eight.times(eight.splat(arguments[5]), eight.load(remains, eight.at(row)))
        return eight.largest(eight.plus(eight.size(builder.load(total)), rest))

    return types.float32(g, sources, weights, rests, i, scale), generate


@intrinsic
def gradient_and_worst(
    context: Any,
    K: Any,
    k: Any,
    atoms: Any,
    factors: Any,
    count: Any,
    width: Any,
    g: Any,
    best: Any,
    places: Any,
) -> Any:
    """``g = k - sum_a factors[a] K[atoms[a]]``, and the largest ``|g|`` of 32 classes of columns; of all.

    For the leading `width` columns, a multiple of 64. `K` (n, w), `k`, `g` (w,) and `factors` (>= count,) float32,
    `atoms` (>= count,) int64. To `best` (32,) the largest values go, to `places` (32,) uint32 their columns.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 9)
        matrix, start, rows, scales, _, _, out, high, at = (
            array and array.data for array in arrays
        )
        stride = builder.extract_value(arrays[0].shape, 1)
        some = _Lanes(builder, types.float32, 16)
        each = [ir.Constant(INDEX, 16 * u) for u in range(4)]
        lanes = ir.Constant(some.integers, list(range(16)))
        sums = [cgutils.alloca_once(builder, some.type) for _ in each]
        most = [cgutils.alloca_once_value(builder, some.constant(0.0)) for _ in range(2)]
        where = [cgutils.alloca_once_value(builder, lanes) for _ in range(2)]
        with cgutils.for_range(builder, builder.sdiv(arguments[5], ir.Constant(INDEX, 64))) as loop:
            first = builder.mul(loop.index, ir.Constant(INDEX, 64))
            columns = [builder.add(first, shift) for shift in each]
            for total, column in zip(sums, columns):
                builder.store(some.load(start, column), total)
            with cgutils.for_range(builder, arguments[4]) as atom:
                place = builder.load(builder.gep(rows, [atom.index]))
                row = builder.mul(place, stride)
                factor = some.splat(builder.fneg(builder.load(builder.gep(scales, [atom.index]))))
                for total, column in zip(sums, columns):
                    part = some.times(factor, some.load(matrix, builder.add(row, column)))
                    builder.store(some.plus(builder.load(total), part), total)
            for u, (total, column) in enumerate(zip(sums, columns)):
                value = builder.load(total)
                some.store(value, out, column)
                size, before = some.size(value), builder.load(most[u % 2])
                more = builder.fcmp_ordered(">", size, before)
                builder.store(builder.select(more, size, before), most[u % 2])
                here = builder.add(some.splat(builder.trunc(column, SHORT_INDEX)), lanes)
                kept = builder.select(more, here, builder.load(where[u % 2]))
                builder.store(kept, where[u % 2])
        for u in range(2):
            some.store(builder.load(most[u]), high, each[u])
            some.store(builder.load(where[u]), at, each[u])
        low, other = builder.load(most[0]), builder.load(most[1])
        return some.largest(builder.select(builder.fcmp_ordered(">", low, other), low, other))

    return types.float32(K, k, atoms, factors, count, width, g, best, places), generate


@intrinsic
def worst_of_few(context: Any, P: Any, k: Any, factors: Any, count: Any, limit: Any) -> Any:
    """The largest ``|k - sum_a factors[a] P[a]|`` of 32 columns: which, or -1 if none is above the limit.

    `P` (>= count, 32) and `k` (32,) float32, `factors` (>= count,) float64; columns where `k` is 0 do not count.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 5)
        panel, start, scales, _, _ = (array and array.data for array in arrays)
        some = _Lanes(builder, types.float32, 32)
        given = some.load(start, ir.Constant(INDEX, 0))
        total = cgutils.alloca_once_value(builder, given)
        with cgutils.for_range(builder, arguments[3]) as atom:
            factor = builder.fneg(builder.load(builder.gep(scales, [atom.index])))
            factor = some.splat(builder.fptrunc(factor, some.element))
            part = some.times(factor, some.load(panel, some.at(atom.index)))
            builder.store(some.plus(builder.load(total), part), total)
        used = builder.fcmp_ordered("!=", given, some.constant(0.0))
        size = builder.select(used, some.size(builder.load(total)), some.constant(0.0))
        high = some.largest(size)
        lanes = builder.bitcast(
            builder.fcmp_ordered("==", size, some.splat(high)), ir.IntType(some.lanes)
        )
        first = builder.zext(builder.cttz(lanes, ir.Constant(ir.IntType(1), 0)), INDEX)
        above = builder.fcmp_ordered(">", high, arguments[4])
        return builder.select(above, first, ir.Constant(INDEX, -1))

    return types.int64(P, k, factors, count, limit), generate


@intrinsic
def times_symmetric(context: Any, Q: Any, x: Any, count: Any, out: Any) -> Any:
    """``out = x Q`` for the leading `count` rows of `Q`, zero or `x` finite up to a multiple of four.

    `out` is written up to a multiple of eight columns. All float64.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 4)
        matrix, factors, _, result = (array and array.data for array in arrays)
        width = builder.extract_value(arrays[0].shape, 1)
        some = _Lanes(builder, types.float64)
        # four sums, so that one waits less for the other
        sums = [cgutils.alloca_once(builder, some.type) for _ in range(4)]
        with cgutils.for_range(builder, _ceil_divided(builder, arguments[2], LANES)) as block:
            column = some.at(block.index)
            for total in sums:
                builder.store(some.constant(0.0), total)
            with cgutils.for_range(builder, _ceil_divided(builder, arguments[2], 4)) as four:
                for u, total in enumerate(sums):
                    row = builder.add(
                        builder.mul(four.index, ir.Constant(INDEX, 4)), ir.Constant(INDEX, u)
                    )
                    factor = some.splat(builder.load(builder.gep(factors, [row])))
                    values = some.load(matrix, builder.add(builder.mul(row, width), column))
                    part = some.times(factor, values)
                    builder.store(some.plus(builder.load(total), part), total)
            one, two, three, four_ = (builder.load(total) for total in sums)
            some.store(some.plus(some.plus(one, two), some.plus(three, four_)), result, column)
        return context.get_dummy_value()

    return types.void(Q, x, count, out), generate


@intrinsic
def add_square(context: Any, Q: Any, u: Any, factor: Any, count: Any) -> Any:
    """``Q += factor u u^T`` for the leading `count` entries; `u` is zero up to a multiple of eight. float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 2)
        matrix, vector = arrays[0].data, arrays[1].data
        width = builder.extract_value(arrays[0].shape, 1)
        some = _Lanes(builder, types.float64)
        with cgutils.for_range(builder, _ceil_divided(builder, arguments[3], LANES)) as block:
            column = some.at(block.index)
            # a fence, or loose arithmetic would divide anew for every entry
            scaled = some.times(some.load(vector, column), some.splat(arguments[2]))
            scaled = some.call("arithmetic.fence", scaled)
            with cgutils.for_range(builder, arguments[3]) as loop:
                value = some.splat(builder.load(builder.gep(vector, [loop.index])))
                at = builder.add(builder.mul(loop.index, width), column)
                total = some.plus(some.load(matrix, at), some.times(value, scaled))
                some.store(total, matrix, at)
        return context.get_dummy_value()

    return types.void(Q, u, factor, count), generate


@intrinsic
def dot_eights(context: Any, x: Any, y: Any, count: Any) -> Any:
    """``x . y`` over `count` entries and those after them up to a multiple of eight. float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, _ = _arrays(context, builder, signature, arguments, 3)
        eight = _Lanes(builder, types.float64)
        total = cgutils.alloca_once_value(builder, eight.constant(0.0))
        with cgutils.for_range(builder, _ceil_divided(builder, arguments[2], LANES)) as block:
            at = eight.at(block.index)
            part = eight.times(eight.load(left.data, at), eight.load(right.data, at))
            builder.store(eight.plus(builder.load(total), part), total)
        return eight.sum(builder.load(total))

    return types.float64(x, y, count), generate


@intrinsic
def combine_eights(context: Any, out: Any, x: Any, factor: Any, y: Any, count: Any) -> Any:
    """``out = x + factor y`` for `count` entries and those after them up to a multiple of eight. float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 4)
        result, first, _, second = (array and array.data for array in arrays)
        eight = _Lanes(builder, types.float64)
        factor_ = eight.splat(arguments[2])
        with cgutils.for_range(builder, _ceil_divided(builder, arguments[4], LANES)) as block:
            at = eight.at(block.index)
            part = eight.times(factor_, eight.load(second, at))
            eight.store(eight.plus(eight.load(first, at), part), result, at)
        return context.get_dummy_value()

    return types.void(out, x, factor, y, count), generate


@intrinsic
def opposed(context: Any, x: Any, signs: Any, count: Any) -> Any:
    """The smallest ``x * signs`` over `count` entries and those after them up to a multiple of eight; 0 at most."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, _ = _arrays(context, builder, signature, arguments, 3)
        eight = _Lanes(builder, types.float64)
        least = cgutils.alloca_once_value(builder, eight.constant(0.0))
        with cgutils.for_range(builder, _ceil_divided(builder, arguments[2], LANES)) as block:
            at = eight.at(block.index)
            value = eight.times(eight.load(left.data, at), eight.load(right.data, at))
            before = builder.load(least)
            less = builder.fcmp_ordered("<", value, before)
            builder.store(builder.select(less, value, before), least)
        found = builder.load(least)
        return builder.fneg(eight.largest(builder.fneg(found)))

    return types.float64(x, signs, count), generate


@intrinsic
def gaussians_of_eight(
    context: Any, members: Any, eight: Any, active: Any, count: Any, out: Any
) -> Any:
    """``out[a, 8 eight + lane] = exp(-|active[a] - members[eight, :, lane]|^2)``: shapes as below; float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 5)
        points, others, result = arrays[0].data, arrays[2].data, arrays[4].data
        p = builder.extract_value(arrays[0].shape, 1)
        width = builder.extract_value(arrays[4].shape, 1)
        some = _Lanes(builder, types.float64)
        sums = [cgutils.alloca_once(builder, some.type) for _ in range(2)]
        first = builder.mul(arguments[1], p)
        with cgutils.for_range(builder, arguments[3]) as atom:
            own = builder.mul(atom.index, p)
            square = some.squared_distance(points, first, others, own, p, sums)
            at = builder.add(builder.mul(atom.index, width), some.at(arguments[1]))
            some.store(some.exp_negative(square), result, at)
        return context.get_dummy_value()

    return types.void(members, eight, active, count, out), generate


@intrinsic
def gradient_of_eight(
    context: Any, members: Any, leaf: Any, active: Any, factors: Any, count: Any, out: Any
) -> Any:
    """``out[lane] = sum_a factors[a] exp(-|active[a] - members[leaf, :, lane]|^2)``; the largest ``|out|``.

    `members` (L, p, 8), `active` (>= count, p) and `factors` (>= count,) of one precision, p a multiple of
    4; `out` (8,) float64. Relative error of the exponential alone: 4 units of the last place.
    """
    real = members.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments, 6)
        points, others, weights = arrays[0].data, arrays[2].data, arrays[3].data
        p = builder.extract_value(arrays[0].shape, 1)
        eight = _Lanes(builder, real)
        first = builder.mul(arguments[1], p)
        total = cgutils.alloca_once_value(builder, eight.constant(0.0))
        # two sums, so that one waits less for the other
        sums = [cgutils.alloca_once(builder, eight.type) for _ in range(2)]
        with cgutils.for_range(builder, arguments[4]) as atom:
            own = builder.mul(atom.index, p)
            square = eight.squared_distance(points, first, others, own, p, sums)
            value = eight.exp_negative(square)
            weight = eight.splat(builder.load(builder.gep(weights, [atom.index])))
            builder.store(eight.plus(builder.load(total), eight.times(weight, value)), total)
        found = builder.load(total)
        wide = ir.VectorType(ir.DoubleType(), LANES)
        result = found if real == types.float64 else builder.fpext(found, wide)
        builder.store(result, builder.bitcast(arrays[5].data, wide.as_pointer()), align=8)
        return eight.largest(eight.size(found))

    return real(members, leaf, active, factors, count, out), generate


@intrinsic
def largest_in_eights(context: Any, x: Any, start: Any, count: Any) -> Any:
    """``max |x[start : start + 8 count]|`` of a contiguous array of floats; 0 if `count` is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (array, _, _) = _arrays(context, builder, signature, arguments, 3)
        eight = _Lanes(builder, x.dtype)
        first, zero = arguments[1], eight.constant(0.0)
        most = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, arguments[2]) as loop:
            value = eight.size(eight.load(array.data, builder.add(first, eight.at(loop.index))))
            here = builder.load(most)
            more = builder.fcmp_ordered(">", value, here)
            builder.store(builder.select(more, value, here), most)
        return eight.largest(builder.load(most))

    return x.dtype(x, start, count), generate


def _arrays(context: Any, builder: Any, signature: Any, arguments: Any, count: int) -> list[Any]:
    """The first arguments, where they are arrays (None elsewhere)."""
    return [
        make_array(kind)(context, builder, argument) if isinstance(kind, types.Array) else None
        for kind, argument in zip(signature.args[:count], arguments[:count], strict=True)
    ]


def _ceil_divided(builder: Any, value: Any, divisor: int) -> Any:
    return builder.sdiv(
        builder.add(value, ir.Constant(INDEX, divisor - 1)), ir.Constant(INDEX, divisor)
    )


class _Lanes:
    """Eight floats at once, or so many, in one precision."""

    def __init__(self, builder: Any, real: Any, lanes: int = LANES) -> None:
        self.builder, self.real, self.lanes = builder, real, lanes
        bits = 32 if real == types.float32 else 64
        self.element = ir.FloatType() if real == types.float32 else ir.DoubleType()
        self.type = ir.VectorType(self.element, lanes)
        self.integers = ir.VectorType(ir.IntType(bits), lanes)
        self.suffix = f"v{lanes}f{bits}"

    def constant(self, value: float) -> Any:
        return ir.Constant(self.type, [value] * self.lanes)

    def splat(self, value: Any) -> Any:
        nothing = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(SHORT_INDEX, 0))
        zeros = ir.Constant(ir.VectorType(SHORT_INDEX, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, nothing, zeros)

    def at(self, index: Any) -> Any:
        return self.builder.mul(index, ir.Constant(INDEX, self.lanes))

    def load(self, pointer: Any, start: Any) -> Any:
        place = self.builder.bitcast(self.builder.gep(pointer, [start]), self.type.as_pointer())
        return self.builder.load(place, align=4 if self.real == types.float32 else 8)

    def store(self, value: Any, pointer: Any, start: Any) -> None:
        kind = value.type.as_pointer()
        place = self.builder.bitcast(self.builder.gep(pointer, [start]), kind)
        self.builder.store(value, place, align=4 if self.real == types.float32 else 8)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=LOOSE)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=LOOSE)

    def call(self, name: str, value: Any, result: Any = None, **options: Any) -> Any:
        kind = ir.FunctionType(result or self.type, [self.type])
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.{name}.{self.suffix}"
        )
        return self.builder.call(function, [value], **options)

    def size(self, value: Any) -> Any:
        return self.call("fabs", value)

    def largest(self, value: Any) -> Any:
        return self.call("vector.reduce.fmax", value, self.element, fastmath=("nnan", "nsz"))

    def squared_distance(
        self, members: Any, first: Any, points: Any, own: Any, p: Any, sums: Any
    ) -> Any:
        """``sum_q (points[own + q] - members[first + q, :])^2``, p a multiple of 4, in two sums."""
        builder, step = self.builder, ir.Constant(INDEX, 4)
        for part in sums:
            builder.store(self.constant(0.0), part)
        with cgutils.for_range(builder, builder.sdiv(p, step)) as chunk:
            start = builder.mul(chunk.index, step)
            for b in range(4):
                q = builder.add(start, ir.Constant(INDEX, b))
                there = self.load(members, self.at(builder.add(first, q)))
                here = self.splat(builder.load(builder.gep(points, [builder.add(own, q)])))
                apart = builder.fsub(here, there, flags=LOOSE)
                square = self.times(apart, apart)
                builder.store(self.plus(builder.load(sums[b % 2]), square), sums[b % 2])
        return self.plus(*(builder.load(part) for part in sums))

    def sum(self, value: Any) -> Any:
        kind = ir.FunctionType(self.element, [self.element, self.type])
        name = f"llvm.vector.reduce.fadd.{self.suffix}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        zero = ir.Constant(self.element, 0.0)
        return self.builder.call(function, [zero, value], fastmath=("reassoc", "nsz"))

    def exp_negative(self, x: Any) -> Any:
        """``exp(-x)``, as in `spdcluster.expression.gaussian`."""
        builder = self.builder
        terms, fraction_bits, most = EXPONENTIAL[self.real]
        y = self.times(x, self.constant(1.0 / log(2.0)))
        small = builder.fcmp_ordered("<", y, self.constant(most))
        y = builder.select(small, y, self.constant(most))
        # no loose arithmetic here: it would undo the rounding
        whole = self.call("floor", builder.fsub(self.constant(0.5), y))
        f = builder.fsub(builder.fneg(y), whole)
        s = self.constant(log(2.0) ** (terms - 1) / factorial(terms - 1))
        for k in range(terms - 2, -1, -1):
            s = self.plus(self.times(s, f), self.constant(log(2.0) ** k / factorial(k)))
        integers = self.integers
        shift = ir.Constant(integers, [fraction_bits] * self.lanes)
        exponent = builder.shl(builder.fptosi(whole, integers), shift)
        return builder.bitcast(builder.add(builder.bitcast(s, integers), exponent), self.type)
