"""Vector instructions that numba has no word for, written for LLVM."""

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
VECTOR = ir.VectorType(ir.FloatType(), LANES)
INDEX, SHORT_INDEX = ir.IntType(64), ir.IntType(32)


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
        arrays = [make_array(signature.args[a])(context, builder, arguments[a]) for a in range(4)]
        values, places, factors, remains = (array.data for array in arrays)
        row, factor = arguments[4], arguments[5]
        n_sources = builder.extract_value(arrays[1].shape, 1)
        loose = ("contract", "reassoc", "nsz")

        def splat(value: Any) -> Any:
            one = builder.insert_element(
                ir.Constant(VECTOR, ir.Undefined), value, ir.Constant(SHORT_INDEX, 0)
            )
            zeros = ir.Constant(ir.VectorType(SHORT_INDEX, LANES), [0] * LANES)
            return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), zeros)

        def eight(pointer: Any, start: Any) -> Any:
            at = builder.bitcast(builder.gep(pointer, [start]), VECTOR.as_pointer())
            return builder.load(at, align=4)

        def times(a: Any, b: Any) -> Any:
            return builder.fmul(a, b, flags=loose)

        lanes = ir.Constant(INDEX, LANES)
        first = builder.mul(row, n_sources)
        total = cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * LANES))
        with cgutils.for_range(builder, n_sources) as loop:
            place = builder.add(first, loop.index)
            source = builder.sext(builder.load(builder.gep(places, [place])), INDEX)
            value = splat(builder.load(builder.gep(values, [source])))
            part = times(value, eight(factors, builder.mul(place, lanes)))
            builder.store(builder.fadd(builder.load(total), part, flags=loose), total)
        fabs = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(VECTOR, [VECTOR]), "llvm.fabs.v8f32"
        )
        rest = times(splat(factor), eight(remains, builder.mul(row, lanes)))
        sums = builder.fadd(builder.call(fabs, [builder.load(total)]), rest, flags=loose)
        largest = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.FloatType(), [VECTOR]),
            "llvm.vector.reduce.fmax.v8f32",
        )
        return builder.call(largest, [sums], fastmath=("nnan", "nsz"))

    return types.float32(g, sources, weights, rests, i, scale), generate
