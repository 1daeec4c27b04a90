"""Pictures and files of answers, which clients fetch by their address.

A browser sends no key with the request for a picture. So the id in the address is the credential: it has 128 random
bits, beside those of its response, and only the client of the response gets it. The file belongs to that client's
connection and to its response. It is stored where responses are; files of responses that may not be stored are in memory.
"""

from __future__ import annotations

import base64
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from dragoman.frontends.http.errors import storage_unavailable
from dragoman.frontends.http.file_links import file_address, link_parts, link_text, linked_files
from dragoman.frontends.http.resource import new_id
from dragoman.journal.response_events import FileTerms
from dragoman.lm import DataPart, JsonObject, Message, Part, TextPart
from dragoman.lm.foreign_items import FILE_ITEM, file_item, file_of, item_of, item_part
from dragoman.lm.parts import ITEM
from dragoman.store import ResponseStore, StoredResponse, file_ids
from dragoman.store.errors import DamagedEntry, JournalStoreError

__all__ = ["Files", "FilesOfResponse", "StoredFile"]

_log = logging.getLogger(__name__)

_SECRET_BYTES = 16
_MEMORY_BYTES = 64 * 1024 * 1024


class StoredFile(msgspec.Struct, frozen=True, array_like=True):
    connection: str
    mime_type: str
    name: str
    data: bytes
    # The item of an endpoint that the file is from, without its bytes.
    item: JsonObject | None = None

    @property
    def part(self) -> DataPart:
        return DataPart(self.mime_type, self.data, name=self.name)

    @property
    def original(self) -> DataPart:
        """The file as the endpoint's item that it came from."""
        if self.item is None:
            return self.part
        return item_part({**self.item, _bytes_of(self.item): base64.b64encode(self.data).decode()})


class Files:
    """Stores the files of answers, and finds them."""

    def __init__(self, store: ResponseStore | None, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._store = store
        self._most = memory_bytes
        # Those that may not be stored. The least recently used are dropped first.
        self._memory: OrderedDict[str, StoredFile] = OrderedDict()
        self._size = 0

    async def add(
        self, file: StoredFile, response_id: str, conversation: str | None, *, may_store: bool
    ) -> str:
        """Store a file. Return its id."""
        id_ = file_ids(response_id) + secrets.token_hex(_SECRET_BYTES)
        if may_store and self._store is not None:
            row = StoredResponse(
                id_, file.connection, None, datetime.now(UTC), msgspec.msgpack.encode(file), conversation
            )
            try:
                await self._store.save(row)
            except JournalStoreError as error:
                _log.warning("file %s is only in memory: %s", file.name or file.mime_type, error)
            else:
                return id_
        self._memory[id_] = file
        self._size += len(file.data)
        while self._size > self._most:
            _, dropped = self._memory.popitem(last=False)
            self._size -= len(dropped.data)
        return id_

    async def find(self, id_: str) -> StoredFile | None:
        """Return a file. None: there is none. Raises `ApiError` if the store cannot be used now."""
        if (file := self._memory.get(id_)) is not None:
            self._memory.move_to_end(id_)
            return file
        try:
            row = None if self._store is None else await self._store.file(id_)
            return None if row is None else msgspec.msgpack.decode(row.content, type=StoredFile)
        except (DamagedEntry, msgspec.MsgspecError) as error:
            _log.warning("a file cannot be read: %s", error)
            return None
        except JournalStoreError as error:
            _log.warning("a file cannot be read now: %s", error)
            raise storage_unavailable() from error

    def forget(self, response_id: str) -> None:
        """Delete the files of a response that are in memory. The store deletes its own."""
        first = file_ids(response_id)
        for id_ in [each for each in self._memory if each.startswith(first)]:
            self._size -= len(self._memory.pop(id_).data)

    async def without_links(self, message: Message, connection: str, *, for_endpoint: bool) -> Message:
        """Replace the links in a message of the model by the files that they stand for."""
        if message.role != "assistant" or "/content" not in message.text:
            return message
        parts = [
            each
            for part in message.content
            async for each in self._unlinked(part, connection, for_endpoint=for_endpoint)
        ]
        return msgspec.structs.replace(message, content=tuple(parts))

    async def _unlinked(self, part: Part, connection: str, *, for_endpoint: bool) -> AsyncIterator[Part]:
        if not isinstance(part, TextPart):
            yield part
            return
        for piece in linked_files(part.value):
            if isinstance(piece, str):
                if piece:
                    yield TextPart(piece, part.audience)
            elif (file := await self._used(piece[1], connection)) is not None:
                yield file.original if for_endpoint else file.part
            elif for_endpoint:
                # It may be a link of the endpoint's own.
                yield TextPart(piece[0], part.audience)
            else:
                # The file is gone. Its place stays, because the history is recognised by it.
                yield DataPart("application/octet-stream", b"")

    async def _used(self, id_: str, connection: str) -> StoredFile | None:
        """Find a file of this connection, and note its use: a file that no history uses for long is deleted."""
        file = await self.find(id_)
        if file is None or file.connection != connection:
            return None
        if self._store is not None and id_ not in self._memory:
            try:
                await self._store.touch([id_], connection, datetime.now(UTC))
            except JournalStoreError as error:
                _log.warning("the use of a file is not stored: %s", error)
        return file


@dataclass(frozen=True, slots=True)
class FilesOfResponse:
    """Turns the files of one response into what its client gets."""

    files: Files
    response_id: str
    connection: str
    terms: FileTerms

    async def shown(self, part: Part, conversation: str | None) -> Iterable[Part]:
        """The parts that the client gets for this one: a link for a file, any other part as it is."""
        if not isinstance(part, DataPart):
            return (part,)
        if part.mime_type == ITEM:
            return await self._item(part, item_of(part), conversation)
        if part.is_internal:
            return (part,)
        if self.terms.takes_data:
            return (item_part(file_item(part, new_id("file"))),)
        return await self._link(part, conversation) if self._is_linked(part) else (part,)

    async def _item(self, part: DataPart, item: JsonObject, conversation: str | None) -> tuple[Part, ...]:
        file = file_of(item)
        if file is None or self.terms.takes_data:
            return (part,)
        if self._is_linked(file):
            rest = {key: value for key, value in item.items() if key != _bytes_of(item)}
            return await self._link(file, conversation, rest)
        # A picture of another server of ours becomes an item that clients know.
        return (file,) if item.get("type") == FILE_ITEM else (part,)

    def _is_linked(self, file: DataPart) -> bool:
        return self.terms.links_pictures or not file.mime_type.startswith("image/")

    async def _link(
        self, file: DataPart, conversation: str | None, item: JsonObject | None = None
    ) -> tuple[Part, ...]:
        stored = StoredFile(self.connection, file.mime_type, file.name, file.data, item)
        id_ = await self.files.add(stored, self.response_id, conversation, may_store=self.terms.may_store)
        address = file_address(self.terms.origin, id_)
        return link_parts(file, address) if self.terms.has_items else (TextPart(link_text(file, address)),)


def _bytes_of(item: JsonObject) -> str:
    """The name of the field that has the bytes of a file."""
    return "data" if item.get("type") == FILE_ITEM else "result"
