"""The wire layer: HTTP/1.1 on a bare asyncio protocol, for faults need the socket and evidence needs raw bytes."""
