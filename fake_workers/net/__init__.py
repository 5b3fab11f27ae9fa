"""The wire layer: HTTP/1.1 on a bare asyncio protocol, because faults need the socket and evidence needs the raw bytes."""
