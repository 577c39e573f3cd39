"""Vectors of floats for LLVM, with which `intrinsics` and `short_vectors` write what numba has no word for."""

from math import factorial, log
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array

UNROLLED = 4
LOOSE = ("contract", "reassoc", "nsz")
INDEX, SHORT_INDEX = ir.IntType(64), ir.IntType(32)
# of 2^x in each precision: terms of its series on [-1/2, 1/2], bits of the fraction, largest -x
EXPONENTIAL = {types.float32: (8, 23, 126.0), types.float64: (14, 52, 1000.0)}


def index_at(builder: Any, pointer: Any, at: Any) -> Any:
    """An entry of an int32 array, to index with."""
    return builder.sext(builder.load(builder.gep(pointer, [at])), INDEX)


def arrays_of(context: Any, builder: Any, signature: Any, arguments: Any, count: int) -> list[Any]:
    """The first arguments, where they are arrays (None elsewhere)."""
    return [
        make_array(kind)(context, builder, argument) if isinstance(kind, types.Array) else None
        for kind, argument in zip(signature.args[:count], arguments[:count], strict=True)
    ]


def ceil_divided(builder: Any, value: Any, divisor: int) -> Any:
    return builder.sdiv(
        builder.add(value, ir.Constant(INDEX, divisor - 1)), ir.Constant(INDEX, divisor)
    )


class Lanes:
    """Some floats at once, in one precision."""

    def __init__(self, builder: Any, real: Any, count: int) -> None:
        self.builder, self.real, self.count = builder, real, count
        bits = 32 if real == types.float32 else 64
        self.element = ir.FloatType() if real == types.float32 else ir.DoubleType()
        self.type = ir.VectorType(self.element, count)
        self.integers = ir.VectorType(ir.IntType(bits), count)
        self.suffix = f"v{count}f{bits}"

    def constant(self, value: float) -> Any:
        return ir.Constant(self.type, [value] * self.count)

    def splat(self, value: Any) -> Any:
        nothing = ir.Constant(ir.VectorType(value.type, self.count), ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(SHORT_INDEX, 0))
        zeros = ir.Constant(ir.VectorType(SHORT_INDEX, self.count), [0] * self.count)
        return self.builder.shuffle_vector(one, nothing, zeros)

    def at(self, index: Any) -> Any:
        return self.builder.mul(index, ir.Constant(INDEX, self.count))

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

    def weighted_sum(self, values: Any, places: Any, factors: Any, start: Any, stop: Any) -> Any:
        """Rows of `values`, each times its factor, from `start` to `stop`."""
        builder, step = self.builder, ir.Constant(INDEX, UNROLLED)
        sums = [cgutils.alloca_once_value(builder, self.constant(0.0)) for _ in range(2)]
        count = builder.sdiv(builder.sub(stop, start), step)
        with cgutils.for_range(builder, count) as loop:
            first = builder.add(start, builder.mul(loop.index, step))
            for b in range(UNROLLED):
                entry = builder.add(first, ir.Constant(INDEX, b))
                row = self.load(values, self.at(index_at(builder, places, entry)))
                factor = self.splat(builder.load(builder.gep(factors, [entry])))
                part = sums[b % 2]
                builder.store(self.plus(builder.load(part), self.times(factor, row)), part)
        return self.plus(*(builder.load(part) for part in sums))

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
        shift = ir.Constant(integers, [fraction_bits] * self.count)
        exponent = builder.shl(builder.fptosi(whole, integers), shift)
        return builder.bitcast(builder.add(builder.bitcast(s, integers), exponent), self.type)
