"""Is this action functionally equivalent to the expert's?"""
