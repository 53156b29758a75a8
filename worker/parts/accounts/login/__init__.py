"""The program that signs in at a provider."""
