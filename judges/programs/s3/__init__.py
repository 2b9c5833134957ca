"""The program that serves S3."""
