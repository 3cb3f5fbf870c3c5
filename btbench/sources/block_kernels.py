"""Compiled steps that turn block ids into dense numbers, in order of first appearance, and into paths and back.

An integer, or a text of up to 15 bytes, is its own key; a longer text is known by 120 bits of MurmurHash3 (x64, 128
bits; Austin Appleby, public domain): among 100 million ids two are confused with a probability of 10^-20.
"""

from __future__ import annotations

import numpy as np

from btbench.jit import inlined, kernel

_U = np.uint64
_C1, _C2 = _U(0x87C37B91114253D5), _U(0x4CF5AD432745937F)
_F1, _F2 = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)
_N1, _N2, _FIVE = _U(0x52DCE729), _U(0x38495AB5), _U(5)
_TOP = _U(56)  # the highest byte of a key tells its kind: the length of a short text, or one of these
_HASHED = _U(0xFF) << _TOP
INTEGER = _U(0xFE) << _TOP

_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE, _MINUS, _ZERO, _NINE, _NULL = (ord(c) for c in '"\\,[]-09n')
_DIGITS = 18  # of integers that int64 holds whatever they are


@inlined
def _rotate(word, bits):  # type: ignore[no-untyped-def]
    return (word << _U(bits)) | (word >> _U(64 - bits))


@inlined
def _finish(word):  # type: ignore[no-untyped-def]
    word = (word ^ (word >> _U(33))) * _F1
    word = (word ^ (word >> _U(33))) * _F2
    return word ^ (word >> _U(33))


@inlined
def _text_key(text, start, stop):  # type: ignore[no-untyped-def]
    """The two words that text[start:stop] is known by."""
    h0 = _U(0)
    h1 = _U(0)
    w0 = _U(0)
    w1 = _U(0)
    place = 0
    for at in range(start, stop):
        if place < 8:
            w0 |= _U(text[at]) << _U(8 * place)
        else:
            w1 |= _U(text[at]) << _U(8 * place - 64)
        place += 1
        if place == 16:
            h0 = (_rotate(h0 ^ (_rotate(w0 * _C1, 31) * _C2), 27) + h1) * _FIVE + _N1
            h1 = (_rotate(h1 ^ (_rotate(w1 * _C2, 33) * _C1), 31) + h0) * _FIVE + _N2
            w0 = _U(0)
            w1 = _U(0)
            place = 0
    length = _U(stop - start)
    if length < 16:
        return w0, w1 | (length << _TOP)
    h0 ^= (_rotate(w0 * _C1, 31) * _C2) ^ length
    h1 ^= (_rotate(w1 * _C2, 33) * _C1) ^ length
    h0 += h1
    h1 += h0
    h0 = _finish(h0)
    h1 = _finish(h1)
    h0 += h1
    return h0, (h1 + h0) | _HASHED


@inlined
def _number(slots, keys, count, k0, k1, guess):  # type: ignore[no-untyped-def]
    """The number of a key; `count`, and the key kept, where it is new. Looks at the number `guess` first.

    Keys that were first seen one after the other tend to come so again, and neighbours lie side by side in memory.
    """
    if 0 <= guess < count and keys[2 * guess] == k0 and keys[2 * guess + 1] == k1:
        return np.int32(guess)
    mask = _U(len(slots) - 1)
    at = _finish(k0 ^ _rotate(k1, 29)) & mask
    while True:
        number = slots[at]
        if number < 0:
            slots[at] = count
            keys[2 * count] = k0
            keys[2 * count + 1] = k1
            return np.int32(count)
        if keys[2 * number] == k0 and keys[2 * number + 1] == k1:
            return number
        at = (at + _U(1)) & mask


@kernel
def rehash(slots, keys, count):  # type: ignore[no-untyped-def]
    """Enter `count` keys known to differ into empty slots (power of two,); keys are pairs of words."""
    mask = _U(len(slots) - 1)
    for number in range(count):
        at = _finish(keys[2 * number] ^ _rotate(keys[2 * number + 1], 29)) & mask
        while slots[at] >= 0:
            at = (at + _U(1)) & mask
        slots[at] = number


@kernel
def split_lists(text, escapes, starts, stops, counts):  # type: ignore[no-untyped-def]
    """Find the elements of valid JSON arrays (or nulls) that stand one behind the other, one a row.

    A string is found with its opening quote, which tells it from a number. Returns how many elements there are, or -1
    where one is neither a string (with escapes only where they are allowed) nor an integer.
    """
    at = 0
    filled = 0
    for row in range(len(counts)):
        begin = filled
        if text[at] == _NULL:
            at += 4
            continue
        if text[at] != _OPEN:
            return -1
        at += 1
        while text[at] != _CLOSE:
            byte = text[at]
            if byte == _COMMA or byte <= 32:
                at += 1
                continue
            starts[filled] = at
            at += 1
            if byte == _QUOTE:
                while text[at] != _QUOTE:
                    if text[at] == _BACKSLASH:
                        if not escapes:
                            return -1
                        at += 1
                    at += 1
                stops[filled] = at
                at += 1
            else:
                while _ZERO <= text[at] <= _NINE:
                    at += 1
                if not (byte == _MINUS or _ZERO <= byte <= _NINE):
                    return -1
                if not (text[at] == _COMMA or text[at] == _CLOSE or text[at] <= 32):
                    return -1
                stops[filled] = at
            filled += 1
        at += 1
        counts[row] = filled - begin
    return filled


@inlined
def _read_integer(text, start, stop):  # type: ignore[no-untyped-def]
    negative = text[start] == _MINUS
    value = np.int64(0)
    for at in range(start + negative, stop):
        value = value * 10 + (np.int64(text[at]) - _ZERO)
    return -value if negative else value


@kernel
def read_integers(text, starts, stops, values):  # type: ignore[no-untyped-def]
    """Whether all elements are integers of up to 18 digits; `values` are theirs then."""
    for i in range(len(starts)):
        if text[starts[i]] == _QUOTE or stops[i] - starts[i] > _DIGITS:
            return False
        values[i] = _read_integer(text, starts[i], stops[i])
    return True


@kernel
def number_dense(values, dense, count, ids):  # type: ignore[no-untyped-def]
    """Number small integers by a plain array of numbers + 1. Returns the new count of numbers."""
    for i in range(len(values)):
        number = dense[values[i]]
        if number == 0:
            count += 1
            number = np.int32(count)
            dense[values[i]] = number
        ids[i] = number - 1
    return count


@kernel
def number_integers(values, slots, keys, count, ids):  # type: ignore[no-untyped-def]
    """Number integers. Returns the new count of numbers."""
    number = np.int32(-1)
    for i in range(len(values)):
        number = _number(slots, keys, count, _U(values[i]), INTEGER, number + 1)
        count += number == count
        ids[i] = number
    return count


@kernel
def number_texts(text, is_json, starts, stops, slots, keys, count, ids):  # type: ignore[no-untyped-def]
    """Number pieces of text; of JSON, one without a quote is an integer. Returns the new count of numbers."""
    number = np.int32(-1)
    for i in range(len(starts)):
        if is_json and text[starts[i]] != _QUOTE and stops[i] - starts[i] <= _DIGITS:
            k0, k1 = _U(_read_integer(text, starts[i], stops[i])), INTEGER
        else:
            k0, k1 = _text_key(text, starts[i], stops[i])
        number = _number(slots, keys, count, k0, k1, number + 1)
        count += number == count
        ids[i] = number
    return count


@kernel
def number_pairs(ids, counts, scopes, chained, slots, keys, count):  # type: ignore[no-untyped-def]
    """Number (scope, id) in place of id. The scope is the row's; in a chain, the pair before, or 0 at the start."""
    k = 0
    number = np.int32(-1)
    for row in range(len(counts)):
        scope = _U(scopes[row])
        for _ in range(counts[row]):
            number = _number(slots, keys, count, (scope << _U(32)) | _U(ids[k]), INTEGER, number + 1)
            count += number == count
            ids[k] = number
            if chained:
                scope = _U(number + 1)
            k += 1
    return count


@kernel
def find_paths(ids, counts, parent, known, path_counts, ends, lengths):  # type: ignore[no-untyped-def]
    """Split each row into chains that follow `parent`, which learns of new ids. Returns ids known and chains found."""
    k = 0
    filled = 0
    for row in range(len(counts)):
        before = np.int32(-1)
        begin = filled
        for _ in range(counts[row]):
            number = ids[k]
            k += 1
            if number == known:
                parent[number] = before
                known += 1
            if before >= 0 and parent[number] == before:
                ends[filled - 1] = number
                lengths[filled - 1] += 1
            else:
                ends[filled] = number
                lengths[filled] = 1
                filled += 1
            before = number
        path_counts[row] = filled - begin
    return known, filled


@kernel
def walk_paths(ends, lengths, parent, stops, ids):  # type: ignore[no-untyped-def]
    """Write out the ids of chains; each ends in `ids` before its stop."""
    for i in range(len(ends)):
        number = ends[i]
        at = stops[i]
        for _ in range(lengths[i]):
            at -= 1
            ids[at] = number
            number = parent[number]
