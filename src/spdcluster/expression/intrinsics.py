"""Vector instructions that numba has no word for, written for LLVM."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spdcluster.expression.lanes import INDEX, LOOSE, UNROLLED, Lanes, arrays_of, index_at

OF_SAME_SIZE = {
    types.float32: types.int32,
    types.float64: types.int64,
    types.int32: types.float32,
    types.int64: types.float64,
}
LANES = 16  # columns of a panel of kernel values
EIGHT = 8
TOGETHER = 4  # points compared with them at once: as many sums as the processor keeps going


@intrinsic
def bits_of(context: Any, value: Any) -> Any:
    """The bits of a float as an integer, or of an integer as a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return OF_SAME_SIZE[value](value), generate


@intrinsic
def kernel_values(
    context: Any,
    points: Any,
    chosen: Any,
    count: Any,
    columns: Any,
    block: Any,
    start: Any,
    out: Any,
) -> Any:
    """``out[i, lane] = exp(-|points[i] - columns[block, :, start + lane]|^2)`` for the i in ``chosen[:count]``.

    `points` (u, p), `columns` (B, p, W) and `out` (u, 16) of one precision, p a multiple of 4; `chosen`
    int32, its `count` entries in use followed by others that fill up a multiple of 4. Relative error of the
    exponential alone: 4 units of the last place.
    """
    real = points.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = arrays_of(context, builder, signature, arguments, 7)
        there, places, others, values = (arrays[i].data for i in (0, 1, 3, 6))
        p, width = (builder.extract_value(arrays[3].shape, i) for i in (1, 2))
        lanes, four = Lanes(builder, real, LANES), ir.Constant(INDEX, TOGETHER)
        first = builder.add(builder.mul(builder.mul(arguments[4], p), width), arguments[5])
        sums = [cgutils.alloca_once(builder, lanes.type) for _ in range(TOGETHER)]
        rounded_up = builder.add(arguments[2], ir.Constant(INDEX, TOGETHER - 1))
        with cgutils.for_range(builder, builder.sdiv(rounded_up, four)) as loop:
            at = builder.mul(loop.index, four)
            rows = [
                index_at(builder, places, builder.add(at, ir.Constant(INDEX, j)))
                for j in range(TOGETHER)
            ]
            own = [builder.mul(row, p) for row in rows]
            for part in sums:
                builder.store(lanes.constant(0.0), part)
            with cgutils.for_range(builder, builder.sdiv(p, ir.Constant(INDEX, UNROLLED))) as chunk:
                here = builder.mul(chunk.index, ir.Constant(INDEX, UNROLLED))
                for b in range(UNROLLED):
                    q = builder.add(here, ir.Constant(INDEX, b))
                    column = lanes.load(others, builder.add(first, builder.mul(q, width)))
                    for j in range(TOGETHER):
                        point = lanes.splat(
                            builder.load(builder.gep(there, [builder.add(own[j], q)]))
                        )
                        apart = builder.fsub(point, column, flags=LOOSE)
                        square = lanes.times(apart, apart)
                        builder.store(lanes.plus(builder.load(sums[j]), square), sums[j])
            for j in range(TOGETHER):
                value = lanes.exp_negative(builder.load(sums[j]))
                lanes.store(value, values, builder.mul(rows[j], ir.Constant(INDEX, LANES)))
        return context.get_dummy_value()

    return types.void(points, chosen, count, columns, block, start, out), generate


@intrinsic
def kernel_row(context: Any, point: Any, columns: Any, block: Any, out: Any, start: Any) -> Any:
    """``out[start + j] = exp(-|point - columns[block, :, j]|^2)`` for all j < W.

    `point` (p,), `columns` (B, p, W) and `out` of one precision, p a multiple of 4 and W one of 64. Relative
    error of the exponential alone: 4 units of the last place.
    """
    real = point.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = arrays_of(context, builder, signature, arguments, 4)
        own, others, values = (arrays[i].data for i in (0, 1, 3))
        p, width = (builder.extract_value(arrays[1].shape, i) for i in (1, 2))
        lanes, step = Lanes(builder, real, LANES), ir.Constant(INDEX, LANES * TOGETHER)
        first = builder.mul(builder.mul(arguments[2], p), width)
        sums = [cgutils.alloca_once(builder, lanes.type) for _ in range(TOGETHER)]
        with cgutils.for_range(builder, builder.sdiv(width, step)) as loop:
            at = builder.mul(loop.index, step)
            for part in sums:
                builder.store(lanes.constant(0.0), part)
            with cgutils.for_range(builder, builder.sdiv(p, ir.Constant(INDEX, UNROLLED))) as chunk:
                here = builder.mul(chunk.index, ir.Constant(INDEX, UNROLLED))
                for b in range(UNROLLED):
                    q = builder.add(here, ir.Constant(INDEX, b))
                    centre = lanes.splat(builder.load(builder.gep(own, [q])))
                    row = builder.add(builder.add(first, builder.mul(q, width)), at)
                    for j, part in enumerate(sums):
                        column = lanes.load(others, builder.add(row, ir.Constant(INDEX, j * LANES)))
                        apart = builder.fsub(centre, column, flags=LOOSE)
                        builder.store(
                            lanes.plus(builder.load(part), lanes.times(apart, apart)), part
                        )
            at = builder.add(at, arguments[4])
            for j, part in enumerate(sums):
                value = lanes.exp_negative(builder.load(part))
                lanes.store(value, values, builder.add(at, ir.Constant(INDEX, j * LANES)))
        return context.get_dummy_value()

    return types.void(point, columns, types.int64, out, types.int64), generate


@intrinsic
def lanes_above(
    context: Any,
    values: Any,
    places: Any,
    factors: Any,
    start: Any,
    stop: Any,
    limit: Any,
    out: Any,
) -> Any:
    """What `sum_lanes` does; returns one bit for each lane with ``|out[lane]| > limit``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = arrays_of(context, builder, signature, arguments, 7)
        lanes = Lanes(builder, values.dtype, LANES)
        total = lanes.weighted_sum(*(array.data for array in arrays[:3]), *arguments[3:5])
        lanes.store(total, arrays[6].data, ir.Constant(INDEX, 0))
        above = builder.fcmp_ordered(">", lanes.size(total), lanes.splat(arguments[5]))
        return builder.zext(builder.bitcast(above, ir.IntType(LANES)), INDEX)

    return types.int64(
        values, places, factors, types.int64, types.int64, values.dtype, out
    ), generate


@intrinsic
def sum_lanes(
    context: Any, values: Any, places: Any, factors: Any, start: Any, stop: Any, out: Any
) -> Any:
    """``out[lane] = sum_e factors[e] values[places[e], lane]`` over ``start <= e < stop``.

    `values` (u, LANES), `factors` and `out` (LANES,) of one precision, `places` int32; ``stop - start`` a
    multiple of 4.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = arrays_of(context, builder, signature, arguments, 6)
        lanes = Lanes(builder, values.dtype, LANES)
        total = lanes.weighted_sum(*(array.data for array in arrays[:3]), *arguments[3:5])
        lanes.store(total, arrays[5].data, ir.Constant(INDEX, 0))
        return context.get_dummy_value()

    return types.void(values, places, factors, types.int64, types.int64, out), generate


@intrinsic
def rows_above(
    context: Any, g: Any, leaf: Any, start: Any, reach: Any, support: Any, weights: Any, rests: Any,
    sums: Any, residual: Any, error: Any, limit: Any,
) -> Any:  # fmt: skip
    """Which of LANES rows from `start` on two bounds leave open at a leaf, one bit each.

    These are ``|g[leaf, s]| + residual[s] reach[leaf]`` and the largest over the members of
    ``|sum_a weights[leaf, a, member] g[support[leaf, a], s]| + residual[s] rests[leaf, member]``, with
    ``sums[leaf] error[s]`` added; the row s is open where both are above ``limit[s]``. `g` (L, R), `reach` and
    `sums` (L,), `weights` (L, S, LANES), `rests` (L, LANES), `residual`, `error` and `limit` (R,) float32,
    `support` (L, S) int32.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = arrays_of(context, builder, signature, arguments, 11)
        of = [array.data if array is not None else None for array in arrays]
        width, n_sources = (builder.extract_value(arrays[i].shape, 1) for i in (0, 4))
        leaf, start = arguments[1:3]
        lanes = Lanes(builder, types.float32, LANES)
        left, top = lanes.load(of[8], start), lanes.load(of[10], start)
        here = lanes.size(lanes.load(of[0], builder.add(builder.mul(leaf, width), start)))
        near = lanes.splat(builder.load(builder.gep(of[3], [leaf])))
        above = builder.fcmp_ordered(">", lanes.plus(here, lanes.times(left, near)), top)
        bits = builder.zext(builder.bitcast(above, ir.IntType(LANES)), INDEX)
        result = cgutils.alloca_once_value(builder, bits)
        totals = [cgutils.alloca_once(builder, lanes.type) for _ in range(LANES)]
        with builder.if_then(builder.icmp_unsigned("!=", bits, ir.Constant(INDEX, 0))):
            for total in totals:
                builder.store(lanes.constant(0.0), total)
            with cgutils.for_range(builder, n_sources) as loop:
                place = builder.add(builder.mul(leaf, n_sources), loop.index)
                source = builder.mul(index_at(builder, of[4], place), width)
                value = lanes.load(of[0], builder.add(source, start))
                first = builder.mul(place, ir.Constant(INDEX, LANES))
                for member, total in enumerate(totals):
                    weight = builder.load(
                        builder.gep(of[5], [builder.add(first, ir.Constant(INDEX, member))])
                    )
                    part = lanes.times(lanes.splat(weight), value)
                    builder.store(lanes.plus(builder.load(total), part), total)
            most = lanes.constant(0.0)
            first = builder.mul(leaf, ir.Constant(INDEX, LANES))
            for member, total in enumerate(totals):
                rest = builder.load(
                    builder.gep(of[6], [builder.add(first, ir.Constant(INDEX, member))])
                )
                high = lanes.plus(
                    lanes.size(builder.load(total)), lanes.times(lanes.splat(rest), left)
                )
                more = builder.fcmp_ordered(">", high, most)
                most = builder.select(more, high, most)
            wrong = lanes.splat(builder.load(builder.gep(of[7], [leaf])))
            most = lanes.plus(most, lanes.times(wrong, lanes.load(of[9], start)))
            above = builder.and_(above, builder.fcmp_ordered(">", most, top))
            builder.store(builder.zext(builder.bitcast(above, ir.IntType(LANES)), INDEX), result)
        return builder.load(result)

    return types.int64(
        g, types.int64, types.int64, reach, support, weights, rests, sums, residual, error, limit
    ), generate


@intrinsic
def largest_difference(context: Any, x: Any, value: Any) -> Any:
    """``max |x - value|`` of an array of LANES floats."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (array,) = arrays_of(context, builder, signature, arguments, 1)
        lanes = Lanes(builder, x.dtype, LANES)
        here = lanes.load(array.data, ir.Constant(INDEX, 0))
        return lanes.largest(lanes.size(builder.fsub(here, lanes.splat(arguments[1]), flags=LOOSE)))

    return x.dtype(x, x.dtype), generate


@intrinsic
def lowest_bit(context: Any, bits: Any) -> Any:
    """The place of the lowest bit of an int64 other than zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def largest_in_eights(context: Any, x: Any, start: Any, count: Any) -> Any:
    """``max |x[start : start + 8 count]|`` of a contiguous array of floats; 0 if `count` is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (array, _, _) = arrays_of(context, builder, signature, arguments, 3)
        eight = Lanes(builder, x.dtype, EIGHT)
        first, zero = arguments[1], eight.constant(0.0)
        most = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, arguments[2]) as loop:
            value = eight.size(eight.load(array.data, builder.add(first, eight.at(loop.index))))
            here = builder.load(most)
            more = builder.fcmp_ordered(">", value, here)
            builder.store(builder.select(more, value, here), most)
        return eight.largest(builder.load(most))

    return x.dtype(x, start, count), generate
