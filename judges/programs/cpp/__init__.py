"""The program that drives the C++ client."""
