"""The contract under pressure: admission, preemption and keepalives (arrives with the admission issue)."""
