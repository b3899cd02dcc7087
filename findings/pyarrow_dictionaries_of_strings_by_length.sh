#!/bin/sh
# Version: pyarrow 26.0.1, with duckdb 2.0.1
# Source: pyarrow.parquet.ParquetFile: `read_dictionary` is a list of column names to read directly as DictionaryArray;
#   read_table: it is only supported for BYTE_ARRAY storage. Both name no encoding.
# Behaviour: a string column in DELTA_LENGTH_BYTE_ARRAY is BYTE_ARRAY storage, is written by pyarrow, and by DuckDB for
#   the second version of the format; with `read_dictionary` it raises OSError, and is read without.
# Output seen:
#   pyarrow BYTE_ARRAY DELTA_LENGTH_BYTE_ARRAY ['a', 'b'] OSError Not yet implemented
#   duckdb BYTE_ARRAY DELTA_LENGTH_BYTE_ARRAY ['a', 'b'] OSError Not yet implemented
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pyarrow==26.0.1 duckdb==2.0.1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

folder = sys.argv[1]
encoding = {"name": "DELTA_LENGTH_BYTE_ARRAY"}
table = pa.table({"name": ["a", "b"]})
pq.write_table(table, f"{folder}/pyarrow.parquet", use_dictionary=False, column_encoding=encoding)
names = "(select 'a' as name union all select 'b')"
duckdb.execute(f"copy {names} to '{folder}/duckdb.parquet' (format parquet, parquet_version v2)")
for writer in ("pyarrow", "duckdb"):
    path = f"{folder}/{writer}.parquet"
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    plain = pq.ParquetFile(path).read().column("name").to_pylist()
    try:
        pq.ParquetFile(path, read_dictionary=["name"]).read()
        problem = "none"
    except Exception as error:
        problem = f"{type(error).__name__} {str(error).split(':')[0]}"
    print(writer, column.physical_type, column.encodings[-1], sorted(plain), problem)
    assert "DELTA_LENGTH_BYTE_ARRAY" in column.encodings
    assert problem.endswith("Not yet implemented")
PYTHON
