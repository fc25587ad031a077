"""Who may do what over HTTP: tokens, what each allows, and how often."""
