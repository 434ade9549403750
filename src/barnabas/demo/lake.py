"""The lake as anybody's tools see it: a folder of Parquet files, read with pyarrow."""

from __future__ import annotations

import pandas as pd
import pyarrow.dataset as ds

from barnabas.demo.folder import Folder


def rows(folder: Folder) -> int:
    """Give how many flights there are, by what the files say of themselves."""
    return int(_dataset(folder).count_rows()) if folder.lake.exists() else 0


def read(folder: Folder) -> pd.DataFrame:
    """Give all flights, with airline and weather, in any order."""
    return pd.DataFrame(_dataset(folder).to_table().to_pandas())


def _dataset(folder: Folder) -> ds.Dataset:
    """Give what is there now. Names that begin with an underscore or a dot are no data, as everywhere with Parquet."""
    return ds.dataset(folder.lake, format="parquet", partitioning="hive")
