"""How each engine words its answers on the wire."""
