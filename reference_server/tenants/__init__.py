"""Rate limits of tenants: the policy, the buckets, what a request costs, and what a worker says it has cost."""
