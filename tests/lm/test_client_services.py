"""What clients lend to agents, by their connections."""

from __future__ import annotations

from typing import cast

from dragoman.lm.client_services import ClientFiles, ClientRegistry, ClientServices


def test_a_client_has_its_own_services_and_any_other_none() -> None:
    clients = ClientRegistry()
    lent = ClientServices(files=cast(ClientFiles, object()))
    clients.register("stdio:editor", lent)
    assert clients.of("stdio:editor") is lent
    assert clients.of("http:") == ClientServices()
