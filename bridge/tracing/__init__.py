"""Makes spans of deliveries for OpenTelemetry, if the environment asks for them. Only `exporting` and `deliveries`
need OpenTelemetry's packages."""
