"""Tensors whose memory is given up and taken again: the real PyTorch, over a stand-in for its GPU part."""

from __future__ import annotations

import contextlib
import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from gpunion.sdk.job.torch_memory import CannotSetAside, NoRoomYet, TorchMemory

pytestmark = pytest.mark.requires("torch")


class NotEnough(Exception):
    pass


class StandIn:
    """PyTorch with tensors of the CPU for those of a GPU; streams do nothing, and pinned memory is memory."""

    def __init__(self) -> None:
        self._torch: Any = importlib.import_module("torch")
        self.pools = [(0, 0)]
        self.cuda = SimpleNamespace(
            Stream=lambda device: SimpleNamespace(synchronize=lambda: None),
            stream=lambda stream: contextlib.nullcontext(),
            synchronize=lambda device: None,
            empty_cache=lambda: None,
            memory_snapshot=lambda: [{"segment_pool_id": pool} for pool in self.pools],
            OutOfMemoryError=NotEnough,
        )

    def empty(self, *size: Any, pin_memory: bool = False, **named: Any) -> Any:
        return self._torch.empty(*size, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


@pytest.fixture
def torch() -> Any:
    return StandIn()


def memory_of(torch: Any) -> TorchMemory:
    return TorchMemory(torch, kind="cpu")


def test_a_model_gives_up_its_memory_and_learns_on_as_if_nothing_had_been(torch: Any) -> None:
    def learned(*, interrupted: bool) -> list[float]:
        torch.manual_seed(1)
        model = torch.nn.Linear(600, 600)
        optimizer = torch.optim.Adam(model.parameters())
        losses = []
        for step in range(6):
            loss = (model(torch.randn(4, 600)) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if interrupted and step % 2:
                memory = memory_of(torch)
                moved_bytes = memory.set_aside()
                # Weights, gradient and Adam's two moments; the biases are too small to be worth it.
                assert moved_bytes >= 4 * 600 * 600 * 4
                assert model.weight.untyped_storage().nbytes() == 0
                memory.bring_back()
        return losses

    assert learned(interrupted=True) == learned(interrupted=False)


def test_views_see_the_same_numbers_and_shared_memory_is_moved_once(torch: Any) -> None:
    whole = torch.arange(1 << 20, dtype=torch.float32)
    part, turned = whole[1000:2000], whole.view(1024, 1024).t()
    wanted = (part.clone(), turned.clone())
    memory = memory_of(torch)
    places = [storage.data_ptr() for storage in memory._storages()]
    assert places.count(whole.data_ptr()) == 1
    memory.set_aside()
    memory.bring_back()
    assert torch.equal(part, wanted[0])
    assert torch.equal(turned, wanted[1])
    assert part.data_ptr() == whole.data_ptr() + 4000


def test_programs_with_graphs_are_left_alone(torch: Any) -> None:
    kept = torch.ones(1 << 20)
    torch.pools.append((0, 1))
    with pytest.raises(CannotSetAside, match="CUDA graphs"):
        memory_of(torch).set_aside()
    assert kept.sum() == 1 << 20


def test_a_copy_that_fails_leaves_everything_where_it_was(torch: Any) -> None:
    kept = torch.ones(1 << 20)

    def broken(device: Any) -> Any:
        raise RuntimeError("the driver is gone")

    torch.cuda.Stream = broken
    with pytest.raises(CannotSetAside, match="the driver is gone"):
        memory_of(torch).set_aside()
    assert kept.sum() == 1 << 20


def test_an_allocator_that_cannot_be_asked_is_no_end_of_the_program(torch: Any) -> None:
    def refuses() -> Any:
        raise RuntimeError("cudaMallocAsync does not yet support this")

    torch.cuda.memory_snapshot = refuses
    with pytest.raises(CannotSetAside, match="does not yet"):
        memory_of(torch).set_aside()


def test_tensors_made_for_inference_come_back_while_that_goes_on(torch: Any) -> None:
    with torch.inference_mode():
        kept = torch.full((1 << 20,), 3.0)
        memory = memory_of(torch)
        memory.set_aside()
        assert kept.untyped_storage().nbytes() == 0
        memory.bring_back()
    assert kept.unique().tolist() == [3.0]


def test_a_tensor_that_only_stands_for_another_is_passed_over(torch: Any) -> None:
    class Wrapper(torch.Tensor):  # type: ignore[misc]
        @staticmethod
        def __new__(cls: Any, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, *rest: Any, **named: Any) -> Any:
            raise NotImplementedError

    outer = Wrapper(torch.full((1 << 20,), 5.0))
    memory = memory_of(torch)
    memory.set_aside()
    assert outer.inner.untyped_storage().nbytes() == 0
    memory.bring_back()
    assert outer.inner.unique().tolist() == [5.0]


def test_a_gpu_without_room_leaves_everything_set_aside(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [torch.full((1 << 20,), float(number)) for number in range(3)]
    memory = memory_of(torch)
    memory.set_aside()
    storage_kind = type(kept[0].untyped_storage())
    real = storage_kind.resize_
    taken: list[int] = []

    def until_it_is_full(storage: Any, size_bytes: int) -> Any:
        if size_bytes and len(taken) == 2:
            raise NotEnough("out of memory")
        taken.append(size_bytes)
        return real(storage, size_bytes)

    with monkeypatch.context() as patched:
        patched.setattr(storage_kind, "resize_", until_it_is_full)
        with pytest.raises(NoRoomYet):
            memory.bring_back()
    assert all(tensor.untyped_storage().nbytes() == 0 for tensor in kept)
    memory.bring_back()
    assert [tensor.unique().tolist() for tensor in kept] == [[0.0], [1.0], [2.0]]
