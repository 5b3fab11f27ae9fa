"""The gateway's knowledge of its workers: registry, detection, health, policies, breakers and the way to them."""
