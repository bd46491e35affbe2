"""The shop's own programs. None of them knows that it is watched, or by whom."""
