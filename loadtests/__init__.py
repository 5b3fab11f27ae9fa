"""The contract under pressure: locust scenarios, a measuring client, and judges who see both sides."""
