"""The testing kit, shipped to users."""
