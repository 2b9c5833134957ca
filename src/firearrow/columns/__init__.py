"""Many records at once as Arrow columns (numpy, pyarrow; extra ``arrow``)."""
