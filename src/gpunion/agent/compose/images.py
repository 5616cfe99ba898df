"""Images that guests bring, where guests run in containers."""

from __future__ import annotations

from gpunion.adapters.runtimes.containers.runtime import ContainerRuntime
from gpunion.agent.compose.runtime_files import IMAGES_DIR
from gpunion.agent.machine.image_budget import ImageShelf
from gpunion.agent.machine.images import ImageKeeper
from gpunion.agent.settings import Settings
from gpunion.ports.images import ArchiveSource
from gpunion.ports.runtime import Runtime


def images_of(settings: Settings, runtime: Runtime, source: ArchiveSource) -> ImageKeeper | None:
    if not isinstance(runtime, ContainerRuntime):
        return None
    return ImageKeeper(runtime.images, source, shelf_of(settings, runtime))


def shelf_of(settings: Settings, runtime: ContainerRuntime) -> ImageShelf:
    return ImageShelf(runtime.images, settings.state_dir / IMAGES_DIR, settings.image_quota_bytes)
