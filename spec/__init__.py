"""The contract as data: an OpenAPI document, one row per normative sentence, and the small library that reads them."""
