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
        eight = _Eight(builder, types.float32)
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
        eight = _Eight(builder, real)
        first = builder.mul(arguments[1], p)
        total = cgutils.alloca_once_value(builder, eight.constant(0.0))
        # two sums, so that one waits less for the other
        sums = [cgutils.alloca_once(builder, eight.type) for _ in range(2)]
        step = ir.Constant(INDEX, 4)
        with cgutils.for_range(builder, arguments[4]) as atom:
            for part in sums:
                builder.store(eight.constant(0.0), part)
            own = builder.mul(atom.index, p)
            with cgutils.for_range(builder, builder.sdiv(p, step)) as chunk:
                start = builder.mul(chunk.index, step)
                for b in range(4):
                    q = builder.add(start, ir.Constant(INDEX, b))
                    there = eight.load(points, eight.at(builder.add(first, q)))
                    here = eight.splat(builder.load(builder.gep(others, [builder.add(own, q)])))
                    apart = builder.fsub(here, there, flags=LOOSE)
                    square = eight.times(apart, apart)
                    builder.store(eight.plus(builder.load(sums[b % 2]), square), sums[b % 2])
            value = eight.exp_negative(eight.plus(*(builder.load(part) for part in sums)))
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
        eight = _Eight(builder, x.dtype)
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


class _Eight:
    """Eight floats at once, in one precision."""

    def __init__(self, builder: Any, real: Any) -> None:
        self.builder, self.real = builder, real
        self.element = ir.FloatType() if real == types.float32 else ir.DoubleType()
        self.type = ir.VectorType(self.element, LANES)
        self.suffix = "v8f32" if real == types.float32 else "v8f64"

    def constant(self, value: float) -> Any:
        return ir.Constant(self.type, [value] * LANES)

    def splat(self, value: Any) -> Any:
        nothing = ir.Constant(self.type, ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(SHORT_INDEX, 0))
        zeros = ir.Constant(ir.VectorType(SHORT_INDEX, LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, nothing, zeros)

    def at(self, index: Any) -> Any:
        return self.builder.mul(index, ir.Constant(INDEX, LANES))

    def load(self, pointer: Any, start: Any) -> Any:
        place = self.builder.bitcast(self.builder.gep(pointer, [start]), self.type.as_pointer())
        return self.builder.load(place, align=4 if self.real == types.float32 else 8)

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
        bits = ir.IntType(32 if self.real == types.float32 else 64)
        integers = ir.VectorType(bits, LANES)
        shift = ir.Constant(integers, [fraction_bits] * LANES)
        exponent = builder.shl(builder.fptosi(whole, integers), shift)
        return builder.bitcast(builder.add(builder.bitcast(s, integers), exponent), self.type)
