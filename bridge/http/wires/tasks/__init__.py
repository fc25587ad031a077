"""Serves the HTTP protocol of a delay-task service, whose tasks have a topic and a due moment in whole Unix seconds."""
