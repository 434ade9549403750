"""Whether every record arrived exactly once and unchanged: the lake against the source, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from barnabas.demo import flights


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. different: flights that arrived once, but not as they were sent."""

    sent: int
    arrived: int
    missing: int
    repeated: int
    different: int

    @property
    def exactly_once(self) -> bool:
        """Say whether all is well."""
        return self.arrived == self.sent and not (self.missing or self.repeated or self.different)


def compare(found: pd.DataFrame, source: pd.DataFrame) -> Verdict:
    """Give the verdict. found: flight_id and the columns of `source`; source: row n is flight n."""
    counts = found["flight_id"].value_counts()
    once = found.drop_duplicates("flight_id").set_index("flight_id").reindex(source.index)
    there = source.index.isin(found["flight_id"])
    same = pd.Series(True, index=source.index)
    for name in source.columns:
        here, sent = once[name], source[name]
        if name in flights.INTEGERS:
            here, sent = here.astype("Float64").fillna(-1e9), sent.astype("Float64").fillna(-1e9)
        else:
            here, sent = here.fillna(""), sent.fillna("")
        same &= here == sent
    return Verdict(
        sent=len(source),
        arrived=len(found),
        missing=int((~there).sum()),
        repeated=int((counts - 1).sum()),
        different=int((~same.astype(bool) & there).sum()),
    )
