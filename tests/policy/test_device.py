"""The choice of CPU or GPU, and what a wrong wish is answered with."""

import pytest
import torch

from pivotrl.policy import device


@pytest.fixture(autouse=True)
def fresh_choice():
    device.current.cache_clear()
    yield
    device.current.cache_clear()


def test_the_cpu_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIVOTRL_DEVICE", "cpu")
    chosen = device.current()
    assert (chosen.kind, chosen.backend, chosen.torch_device.type) == ("cpu", "gloo", "cpu")
    assert (chosen.transformer_engine, chosen.adam, chosen.gradient_fusion) == (False, "torch", None)


def test_the_rank_on_the_node_picks_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("PIVOTRL_DEVICE", raising=False)
    monkeypatch.setenv("LOCAL_RANK", "3")
    chosen = device.current()
    assert (chosen.kind, chosen.backend, chosen.torch_device) == ("cuda", "nccl", torch.device("cuda", 3))


@pytest.mark.parametrize(
    ("installed", "adam", "fusion"),
    [
        ((), "torch", None),
        (("apex",), "apex", None),
        (("apex", "fused_weight_gradient_mlp_cuda"), "apex", "apex"),
        (("transformer_engine",), "transformer_engine", "transformer_engine"),
    ],
)
def test_libraries_beside_a_gpu_are_found(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], adam: str, fusion: str | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("PIVOTRL_DEVICE", raising=False)
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: name if name in installed else None)
    chosen = device.current()
    assert (chosen.adam, chosen.gradient_fusion) == (adam, fusion)
    assert chosen.transformer_engine == ("transformer_engine" in installed)


@pytest.mark.parametrize(("wish", "said"), [("gpu", "write cpu or cuda"), ("cuda", "torch sees no GPU here")])
def test_wrong_wishes(monkeypatch: pytest.MonkeyPatch, wish: str, said: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("PIVOTRL_DEVICE", wish)
    with pytest.raises(ValueError, match=said):
        device.current()
