"""Keys and credentials of NATS: Ed25519 keys in NATS's text form, signed claims (JWT), and files with both (`.creds`).

The form is that of NATS (`nats-io/nkeys`, `nats-io/jwt`): base 32 of a prefix, the key and a checksum. The library of that
name has no wheel, and the signature itself is PyNaCl's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacl.signing import SigningKey

__all__ = ["Credentials", "CredentialsError", "KeyPair", "KeyRole", "signed_claims"]

KeyRole: TypeAlias = Literal["operator", "account", "user"]

# The first five bits of a key's text say what it is for: O, A and U.
_PREFIXES: dict[KeyRole, int] = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
_SEED = 18 << 3
_JWT_BLOCK = re.compile(r"-+BEGIN NATS USER JWT-+\s+([\w.-]+)\s")
_SEED_BLOCK = re.compile(r"-+BEGIN USER NKEY SEED-+\s+(\w+)\s")


class CredentialsError(Exception):
    """A file has no credentials of NATS. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    role: KeyRole
    _key: SigningKey

    @classmethod
    def new(cls, role: KeyRole) -> KeyPair:
        return cls(role, SigningKey.generate())

    @classmethod
    def of_seed(cls, role: KeyRole, seed: str) -> KeyPair:
        """The key of this role. Raises `CredentialsError`."""
        try:
            # Two bytes of prefix, 32 of the key, two of checksum.
            pair = cls(role, SigningKey(base64.b32decode(seed + "=" * (-len(seed) % 8))[2:-2]))
        except ValueError as error:
            raise CredentialsError("The seed is damaged.") from error
        if pair.seed != seed:
            raise CredentialsError(f"The seed is damaged, or of no {role}.")
        return pair

    @property
    def public(self) -> str:
        return _text(bytes([_PREFIXES[self.role]]) + bytes(self._key.verify_key))

    @property
    def seed(self) -> str:
        prefix = _PREFIXES[self.role]
        return _text(bytes([_SEED | prefix >> 5, (prefix & 31) << 3]) + bytes(self._key))

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data).signature


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows to a server: claims that its account signed, and the key they are about."""

    jwt: str
    key: KeyPair

    @classmethod
    def read(cls, text: str) -> Credentials:
        """Read a `.creds` file. Raises `CredentialsError`."""
        jwt, seed = _JWT_BLOCK.search(text), _SEED_BLOCK.search(text)
        if jwt is None or seed is None:
            raise CredentialsError("It has no credentials of NATS: a JWT and a seed, each in its block.")
        return cls(jwt[1], KeyPair.of_seed("user", seed[1]))

    @property
    def name(self) -> str:
        """Of the node that they are for. Raises `CredentialsError`."""
        return str(self._claims().get("name", ""))

    @property
    def role(self) -> str:
        """Of the node, as its tag says. Raises `CredentialsError`."""
        match self._claims().get("nats"):
            case {"tags": [str(role), *_]}:
                return role
        return ""

    def _claims(self) -> dict[str, object]:
        """What the JWT says. Only a server can know whether it is true."""
        try:
            body = self.jwt.split(".")[1]
            claims: object = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (IndexError, ValueError) as error:
            raise CredentialsError("The JWT in the credentials is damaged.") from error
        return claims if isinstance(claims, dict) else {}

    def text(self) -> str:
        """The content of a `.creds` file."""
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.key.seed}\n------END USER NKEY SEED------\n"
        )

    @property
    def callbacks(self) -> tuple[Callable[[], bytearray | bytes], Callable[[str], bytes]]:
        """What `nats.connect` takes as `user_jwt_cb` and `signature_cb`."""
        return self.jwt.encode, lambda nonce: base64.b64encode(self.key.sign(nonce.encode()))


def signed_claims(issuer: KeyPair, subject: KeyPair, name: str, claims: dict[str, object]) -> str:
    """A JWT in which the issuer says what the subject is and may do (`claims`, with their `type`)."""
    body: dict[str, object] = {
        "iat": int(time.time()),
        "iss": issuer.public,
        "sub": subject.public,
        "name": name,
        "nats": {**claims, "version": 2},
    }
    digest = hashlib.sha256(json.dumps(body).encode()).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_segment({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_segment(body)}"
    return f"{signed}.{_unpadded(issuer.sign(signed.encode()))}"


def _segment(value: dict[str, object]) -> str:
    return _unpadded(json.dumps(value, separators=(",", ":")).encode())


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _text(data: bytes) -> str:
    return base64.b32encode(data + _checksum(data)).decode().rstrip("=")


def _checksum(data: bytes) -> bytes:
    # CRC-16/XMODEM, low byte first.
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")
