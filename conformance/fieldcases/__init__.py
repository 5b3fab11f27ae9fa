"""Field checks as data: from the OpenAPI document to cases, without running anything.

```python
from conformance.fieldcases import cases

for case in cases("chat"):  # or cases("chat", document=a_changed_copy)
    print(case.name, case.clause_id, case.expect)
```

The same document gives the same cases with the same names, so a changed copy of it (a mutant) tells by comparison which
cases could notice the change.
"""

from __future__ import annotations

from conformance.fieldcases.arriving import arrived
from conformance.fieldcases.bodies import fill
from conformance.fieldcases.case import Arrival, Case
from conformance.fieldcases.cases import cases

__all__ = ["Arrival", "Case", "arrived", "cases", "fill"]
