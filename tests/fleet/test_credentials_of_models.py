"""A model with `kind = "fleet"`, with the credentials that `dragoman fleet` makes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bridge.consumer import Chat
from dragoman.config import Config, FleetConfig, FleetModel
from dragoman.fleet.folder import FleetFolder
from dragoman.fleet.joining import joined
from dragoman.fleet.local_server import local_server
from dragoman.fleet.messages import BATCH_FORM, Batch, StreamEnd
from dragoman.lm import TextPart
from dragoman.models import Models
from fleet.machines import soon
from fleet.strange_worker import StrangeWorker


def _said(stream: str) -> tuple[bytes, ...]:
    return (BATCH_FORM.encode(Batch(stream, 1, (TextPart("hi"),), end=StreamEnd())),)


@pytest.mark.parametrize(
    ("credentials", "name"),
    [("fleet", None), ("fleet", "gateway-1"), ("fleet/gateway-1.creds", None)],
)
async def test_a_model_of_the_fleet_works_with_a_folder_of_credentials_and_with_a_file(
    tmp_path: Path, credentials: str, name: str | None
) -> None:
    folder = FleetFolder(tmp_path)
    # As `fleet up` makes them.
    folder.credentials("admin", "admin")
    folder.credentials("worker", "worker-1")
    folder.credentials("gateway", "gateway-1")
    (folder.path / "broken.creds").write_text("nothing")
    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(local_server(folder, 0))).url
        worker = FleetConfig(url=url, credentials=folder.credentials_file("worker-1"))
        connection = await stack.enter_async_context(joined(worker, "worker-1"))
        await StrangeWorker(connection, "worker-1", batches=_said, gateway="gateway-1").start()
        fleet = FleetConfig(url=url, credentials=tmp_path / credentials, name=name)
        models = Models(Config(models={"strange": FleetModel()}, fleet=fleet))
        stack.push_async_callback(models.close)
        assert (await soon(Chat(models.get("strange"), tmp_path).say("hello"))).text == "hi"
