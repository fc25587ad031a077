"""Speaks the wire of a delay-task service, whose tasks have a topic and a due moment in whole Unix seconds."""
