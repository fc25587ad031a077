from bridge.cli import app

app()
