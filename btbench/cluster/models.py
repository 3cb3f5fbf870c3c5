"""Models: the few numbers of an LLM that its serving costs follow from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A transformer as its memory and arithmetic see it."""

    name: str
    params: float  # all weights
    active_params: float  # weights one token passes through (smaller for a mixture of experts)
    dtype_bytes: float  # per weight and per KV element
    layers: int
    kv_heads: int
    head_dim: int

    @property
    def weight_bytes(self) -> float:
        """Memory of the weights."""
        return self.params * self.dtype_bytes

    @property
    def active_bytes(self) -> float:
        """Weights read in one decode step."""
        return self.active_params * self.dtype_bytes

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of one token: 2 × layers × KV heads × head size × bytes per element."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype_bytes


# name, parameters, active parameters, bytes, layers, KV heads, head size: model cards, as used in the published table
MODELS = {
    model.name: model
    for model in (
        Model("llama-3.3-70b", 70.6e9, 70.6e9, 2.0, 80, 8, 128),
        Model("qwen3-8b", 8.19e9, 8.19e9, 2.0, 36, 8, 128),
        Model("glm-4.5", 355e9, 32e9, 0.5, 92, 4, 128),
        Model("glm-5.2", 744e9, 40e9, 0.5, 78, 1, 288),  # latent attention, as one wide head
        Model("kimi-k2", 1e12, 32e9, 0.5, 61, 8, 128),
        Model("dense-1t", 1e12, 1e12, 1.0, 120, 8, 128),
    )
}
