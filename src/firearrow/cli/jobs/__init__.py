"""Jobs of the command line that run on Spark, and their end."""
