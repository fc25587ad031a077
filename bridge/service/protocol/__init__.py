"""Has the rules that every change of a message follows: which copy comes next, and which copies are ghosts."""
