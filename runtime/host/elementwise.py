"""Element-wise operators on real values, with NumPy broadcasting."""

import math
from collections.abc import Callable

import numpy as np

from tilewright.runtime.attributes import Attributes, get_float, get_int, get_str
from tilewright.runtime.host.kernel import ArrayKernel, Inputs, Numbers, required
from tilewright.runtime.tensor import Array

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Numbers) -> Numbers:
    """Return the error function, in float32."""
    return np.asarray(_erf(x.astype(np.float64)), np.float32)


def _sigmoid(x: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def _unary(function: Callable[[Numbers, Attributes], Numbers]) -> ArrayKernel:
    def run(inputs: Inputs, attributes: Attributes) -> list[Array]:
        x = required(inputs, 0)
        return [np.asarray(function(x, attributes), x.dtype)]

    return run


def _fold(function: Callable[[Numbers, Numbers], Numbers]) -> ArrayKernel:
    def run(inputs: Inputs, _: Attributes) -> list[Array]:
        result = required(inputs, 0)
        for i in range(1, len(inputs)):
            result = function(result, required(inputs, i))
        return [np.asarray(result)]

    return run


def _divide(a: Numbers, b: Numbers) -> Numbers:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.trunc(a / b), a.dtype)


def _clip(x: Numbers, attributes: Attributes) -> Numbers:
    low, high = get_float(attributes, "min", -math.inf), get_float(attributes, "max", math.inf)
    return np.clip(x, low, high)


def _hard_sigmoid(x: Numbers, attributes: Attributes) -> Numbers:
    alpha, beta = get_float(attributes, "alpha", 0.2), get_float(attributes, "beta", 0.5)
    return np.asarray(np.clip(np.float32(alpha) * x + np.float32(beta), 0, 1))


def _leaky_relu(x: Numbers, attributes: Attributes) -> Numbers:
    return np.where(x >= 0, x, np.float32(get_float(attributes, "alpha", 0.01)) * x)


def _elu(x: Numbers, attributes: Attributes) -> Numbers:
    alpha = np.float32(get_float(attributes, "alpha", 1.0))
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _selu(x: Numbers, attributes: Attributes) -> Numbers:
    alpha = np.float32(get_float(attributes, "alpha", 1.6732632))
    gamma = np.float32(get_float(attributes, "gamma", 1.0507010))
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _gelu(x: Numbers, attributes: Attributes) -> Numbers:
    if get_str(attributes, "approximate", "none") == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return np.asarray(x / 2 * (1 + np.tanh(inner)))
    return np.asarray(x / 2 * (1 + erf(x / np.float32(math.sqrt(2)))))


def _modulo(inputs: Inputs, attributes: Attributes) -> list[Array]:
    a, b = required(inputs, 0), required(inputs, 1)
    return [np.asarray(np.fmod(a, b) if get_int(attributes, "fmod", 0) else np.mod(a, b))]


ELEMENTWISE_KERNELS: dict[str, ArrayKernel] = {
    "Relu": _unary(lambda x, _: np.maximum(x, 0)),
    "Clip": _unary(_clip),
    "Abs": _unary(lambda x, _: np.abs(x)),
    "Ceil": _unary(lambda x, _: np.ceil(x)),
    "Cos": _unary(lambda x, _: np.cos(x)),
    "Elu": _unary(_elu),
    "Erf": _unary(lambda x, _: erf(x)),
    "Exp": _unary(lambda x, _: np.exp(x)),
    "Floor": _unary(lambda x, _: np.floor(x)),
    "Gelu": _unary(_gelu),
    "HardSigmoid": _unary(_hard_sigmoid),
    "HardSwish": _unary(lambda x, _: x * np.clip(x / np.float32(6) + np.float32(0.5), 0, 1)),
    "LeakyRelu": _unary(_leaky_relu),
    "Log": _unary(lambda x, _: np.log(x)),
    "Neg": _unary(lambda x, _: -x),
    "Not": _unary(lambda x, _: np.logical_not(x)),
    "Reciprocal": _unary(lambda x, _: 1 / x),
    "Round": _unary(lambda x, _: np.rint(x)),
    "Selu": _unary(_selu),
    "Sigmoid": _unary(lambda x, _: _sigmoid(x)),
    "Sign": _unary(lambda x, _: np.sign(x)),
    "Sin": _unary(lambda x, _: np.sin(x)),
    "Softplus": _unary(lambda x, _: np.logaddexp(x, 0)),
    "Sqrt": _unary(lambda x, _: np.sqrt(x)),
    "Tanh": _unary(lambda x, _: np.tanh(x)),
    "Add": _fold(np.add),
    "Sub": _fold(np.subtract),
    "Mul": _fold(np.multiply),
    "Div": _fold(_divide),
    "Max": _fold(np.maximum),
    "Min": _fold(np.minimum),
    "Pow": _fold(lambda a, b: np.asarray(np.power(a, b), a.dtype)),
    "PRelu": _fold(lambda x, slope: np.where(x >= 0, x, slope * x)),
    "And": _fold(np.logical_and),
    "Or": _fold(np.logical_or),
    "Xor": _fold(np.logical_xor),
    "Mod": _modulo,
    "Equal": _fold(np.equal),
    "Greater": _fold(np.greater),
    "GreaterOrEqual": _fold(np.greater_equal),
    "Less": _fold(np.less),
    "LessOrEqual": _fold(np.less_equal),
}
