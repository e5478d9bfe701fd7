"""What a selection found, and whether its data can be trusted: `python tools/select_pivots.py report FOLDER`."""
