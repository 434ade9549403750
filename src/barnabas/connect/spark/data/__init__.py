"""Connect's data beside Spark's: schemas, the types of columns, and the SQL between them."""
