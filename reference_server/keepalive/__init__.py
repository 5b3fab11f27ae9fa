"""Signs of life in a quiet event stream: when (`core`) and how (`stream`)."""
