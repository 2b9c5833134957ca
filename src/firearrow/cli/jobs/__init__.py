"""How a job of the command line runs on Spark, and how it ends."""
