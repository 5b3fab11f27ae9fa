"""What a check is written with: gateway and worker handles, exchanges, evidence, verdicts."""
