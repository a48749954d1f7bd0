"""The live page: what a lab does, told to browsers and terminals while it happens, and what they may ask for."""
