"""How good files are made bad: bytes, cells, arrays, tensors and JSON values that nobody should have to trust."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from typing import Any

import numpy as np

BYTES = [b"\0", b"\xff", b'"', b"\n", b",", b"[" * 5000, b"{", b"1e999", b"NaN", b"-1", b"\x1b[31m", b"\xef\xbb\xbf"]
CELLS = [
    *(
        "",
        " ",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "-1",
        "0.5",
        "1e300",
        "1e999",
        "true",
        "None",
        "é" * 300,
        "\x1b[2J",
        "\x00",
    ),
    *(str(2**63), str(2**64), str(2**64 + 1), str(-(2**63) - 1), str(10**30), "9" * 5000, '"', '"open', "a\nb", "=1+1"),
    *("01", "1_000", "0x10", "1,5", "2020-01-01", "１", "<unknown>", "\ud83d".encode("utf-16", "surrogatepass").hex()),
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.5, -0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "../../etc/passwd", "a" * 100_000, "\x1b[31m", "1", "<script>alert(1)</script>", "prism_irl.em:Start"),
    *([], {}, [1], [[]], {"a": 1}, [None], [10**9], {"size": 10**9, "names": None}),
]
NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 1e300, 0.0, 2.0, -0.0, 5e-324]
INTEGERS = [-1, -(2**31), 2**31 - 1, 2**40, 127, 0]


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Flip, cut, repeat, insert or overwrite somewhere."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at : at + rng.choice([1, 2, 8, 100])]
            case 3:
                data[at:at] = rng.choice(BYTES)
            case 4:
                data[at : at + 8] = rng.randbytes(rng.choice([1, 4, 8]))
            case _:
                data[at:at] = data[max(0, at - 50) : at]
    return bytes(data)


def mutate_csv(rng: random.Random, content: bytes) -> bytes:
    """Change cells, columns, rows or separators of a table, or its bytes."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    match rng.randrange(8):
        case 0:
            return mutate_bytes(rng, content)
        case 1:
            at = rng.randrange(len(rows[0]))
            for row in rows:
                row.insert(at, row[rng.randrange(len(row))])  # a doubled column, or cells that moved
        case 2:
            rows[0][rng.randrange(len(rows[0]))] = rng.choice([*CELLS, *rows[0]])
        case 3:
            del rows[rng.randrange(len(rows)) :][1:3]
            rows = rows[: rng.randrange(len(rows) + 1)]
        case 4:
            at, cell = rng.randrange(len(rows[0])), rng.choice(CELLS)
            for row in rows[1:]:
                row[at % len(row)] = cell
        case _:
            for _ in range(rng.choice([1, 1, 3])):
                row = rows[rng.randrange(1, len(rows))]
                row[rng.randrange(len(row))] = rng.choice(CELLS)
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


def mutate_json(rng: random.Random, content: bytes) -> bytes:
    """Replace a value somewhere in JSON, drop or rename a key, nest it too deep, or change its bytes."""
    if rng.random() < 0.2:
        return mutate_bytes(rng, content)
    if rng.random() < 0.03:
        return b"[" * 20_000 + content + b"]" * 20_000
    value = json.loads(content)
    for _ in range(rng.choice([1, 1, 2])):
        value = _changed(rng, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _changed(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.08:
        return copy.deepcopy(rng.choice(VALUES))  # a later change must not reach the list, nor other cases
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    match rng.randrange(8):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[rng.choice([*map(str, VALUES[:12]), "__class__"])] = value.pop(key)
        case 2 if isinstance(value, list):
            value.append(copy.deepcopy(value[key]))
        case _:
            value[key] = _changed(rng, value[key])
    return value


def mutate_array(rng: random.Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Another number, shape or type."""
    made = np.array(array)
    match rng.randrange(6):
        case 0 if made.size:
            made = made.reshape(-1)[: rng.randrange(made.size + 1)]
        case 1:
            kinds = ["<f4", "<f8", "<i8", "<u8", "?", "<U3", "<M8[s]", "<c8", "<i1"]
            with contextlib.suppress(ValueError), np.errstate(all="ignore"):  # text is no number
                made = made.astype(rng.choice(kinds))
        case 2:
            made = made[None]
        case 3 if made.ndim:
            made = np.concatenate([made, made])
        case _ if made.size and made.dtype.kind in "iufb":
            for _ in range(rng.choice([1, 3])):
                at = rng.randrange(made.size)
                number = rng.choice(NUMBERS if made.dtype.kind == "f" else INTEGERS)
                made.reshape(-1)[at] = np.array(number).astype(made.dtype)
    return made
