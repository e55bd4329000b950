"""The parts of scripts/fuzz.py: valid inputs, ways to damage them, and what is right after."""
