"""Who is asking: keys compared in constant time, the tenant a request counts for, and the operators' own keys."""
