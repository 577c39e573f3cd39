"""Vector instructions for the short vectors of a row's few atoms, and for one row of all columns."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spdcluster.expression.lanes import INDEX, SHORT_INDEX, Lanes, arrays_of, ceil_divided

EIGHT = 8


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
        arrays = arrays_of(context, builder, signature, arguments, 9)
        matrix, start, rows, scales, _, _, out, high, at = (
            array and array.data for array in arrays
        )
        stride = builder.extract_value(arrays[0].shape, 1)
        some = Lanes(builder, types.float32, 16)
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
        arrays = arrays_of(context, builder, signature, arguments, 5)
        panel, start, scales, _, _ = (array and array.data for array in arrays)
        some = Lanes(builder, types.float32, 32)
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
            builder.fcmp_ordered("==", size, some.splat(high)), ir.IntType(some.count)
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
        arrays = arrays_of(context, builder, signature, arguments, 4)
        matrix, factors, _, result = (array and array.data for array in arrays)
        width = builder.extract_value(arrays[0].shape, 1)
        some = Lanes(builder, types.float64, EIGHT)
        # four sums, so that one waits less for the other
        sums = [cgutils.alloca_once(builder, some.type) for _ in range(4)]
        with cgutils.for_range(builder, ceil_divided(builder, arguments[2], EIGHT)) as block:
            column = some.at(block.index)
            for total in sums:
                builder.store(some.constant(0.0), total)
            with cgutils.for_range(builder, ceil_divided(builder, arguments[2], 4)) as four:
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
        arrays = arrays_of(context, builder, signature, arguments, 2)
        matrix, vector = arrays[0].data, arrays[1].data
        width = builder.extract_value(arrays[0].shape, 1)
        some = Lanes(builder, types.float64, EIGHT)
        with cgutils.for_range(builder, ceil_divided(builder, arguments[3], EIGHT)) as block:
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
        left, right, _ = arrays_of(context, builder, signature, arguments, 3)
        eight = Lanes(builder, types.float64, EIGHT)
        total = cgutils.alloca_once_value(builder, eight.constant(0.0))
        with cgutils.for_range(builder, ceil_divided(builder, arguments[2], EIGHT)) as block:
            at = eight.at(block.index)
            part = eight.times(eight.load(left.data, at), eight.load(right.data, at))
            builder.store(eight.plus(builder.load(total), part), total)
        return eight.sum(builder.load(total))

    return types.float64(x, y, count), generate


@intrinsic
def combine_eights(context: Any, out: Any, x: Any, factor: Any, y: Any, count: Any) -> Any:
    """``out = x + factor y`` for `count` entries and those after them up to a multiple of eight. float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = arrays_of(context, builder, signature, arguments, 4)
        result, first, _, second = (array and array.data for array in arrays)
        eight = Lanes(builder, types.float64, EIGHT)
        factor_ = eight.splat(arguments[2])
        with cgutils.for_range(builder, ceil_divided(builder, arguments[4], EIGHT)) as block:
            at = eight.at(block.index)
            part = eight.times(factor_, eight.load(second, at))
            eight.store(eight.plus(eight.load(first, at), part), result, at)
        return context.get_dummy_value()

    return types.void(out, x, factor, y, count), generate


@intrinsic
def opposed(context: Any, x: Any, signs: Any, count: Any) -> Any:
    """The smallest ``x * signs`` over `count` entries and those after them up to a multiple of eight; 0 at most."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, _ = arrays_of(context, builder, signature, arguments, 3)
        eight = Lanes(builder, types.float64, EIGHT)
        least = cgutils.alloca_once_value(builder, eight.constant(0.0))
        with cgutils.for_range(builder, ceil_divided(builder, arguments[2], EIGHT)) as block:
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
        arrays = arrays_of(context, builder, signature, arguments, 5)
        points, others, result = arrays[0].data, arrays[2].data, arrays[4].data
        p = builder.extract_value(arrays[0].shape, 1)
        width = builder.extract_value(arrays[4].shape, 1)
        some = Lanes(builder, types.float64, EIGHT)
        sums = [cgutils.alloca_once(builder, some.type) for _ in range(2)]
        first = builder.mul(arguments[1], p)
        with cgutils.for_range(builder, arguments[3]) as atom:
            own = builder.mul(atom.index, p)
            square = some.squared_distance(points, first, others, own, p, sums)
            at = builder.add(builder.mul(atom.index, width), some.at(arguments[1]))
            some.store(some.exp_negative(square), result, at)
        return context.get_dummy_value()

    return types.void(members, eight, active, count, out), generate
