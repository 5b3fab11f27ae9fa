"""The tenant a request counts for, as a tenant key.

- `auth:<id>`: an API key has identified the caller; the shared key's users are one tenant together.
- `header:<value>`: a trusted proxy says who it is (`--trust-tenant-header`), where no API key has.
- `ip:<address>`: the peer of the connection.
- `anonymous`: none of these; over TCP there is always an address.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from reference_server.identity import keys

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.settings import Settings

ANONYMOUS = "anonymous"
AUTH, HEADER, ADDRESS = "auth:", "header:", "ip:"
LONGEST_HEADER_BYTES = 200  # the newer real gateway stops here too
_MOST_ADDRESSES_REMEMBERED = 4096
_USABLE_HEADER = re.compile(rf"[\t\x20-\x7e]{{1,{LONGEST_HEADER_BYTES}}}")


def of_tenant(tenant_id: str) -> str:
    """The tenant key of the holder of a `--tenant-api-key`."""
    return AUTH + tenant_id


def of_shared_key(key: str) -> str:
    """The tenant key of everyone who uses `--api-key`."""
    return AUTH + keys.shared_tenant_id(key)


def of_stranger(this: Call, settings: Settings) -> str:
    """The tenant key of a caller whom no API key has identified (clauses request_headers.tenant_id.*).

    A header that is empty, longer than 200 bytes or not ASCII names nobody and is passed over: a request is never
    refused for it. The newer real gateway passes over the same but for too long a value, which it answers with 400.
    """
    if settings.trust_tenant_header:
        asserted = (this.header(settings.tenant_header_name) or "").strip(" \t")
        if _USABLE_HEADER.fullmatch(asserted):
            return HEADER + asserted
    try:
        return of_address(this.peer or "")
    except ValueError:
        return ANONYMOUS  # a transport without addresses


@lru_cache(maxsize=_MOST_ADDRESSES_REMEMBERED)
def of_address(text: str) -> str:
    """The tenant key of an address, in its one spelling; an IPv4 address in IPv6 clothes is the IPv4 address.

    Raises:
        ValueError: the text is no address.
    """
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return f"{ADDRESS}{mapped or address}"
