FROM python:3.13-slim AS build
WORKDIR /build
RUN python -m venv /opt/delaybridge
COPY deploy/requirements.lock deploy/requirements.lock
RUN /opt/delaybridge/bin/pip install --no-cache-dir --require-hashes --requirement deploy/requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY topology topology
COPY bridge bridge
RUN /opt/delaybridge/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
# The user id is fixed, so that an orchestrator can check that it is not root.
RUN useradd --system --uid 10001 --no-create-home delaybridge
COPY --from=build /opt/delaybridge /opt/delaybridge
ENV PATH=/opt/delaybridge/bin:$PATH PYTHONUNBUFFERED=1 BRIDGE_HTTP_HOST=0.0.0.0 BRIDGE_HTTP_PORT=8080
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"BRIDGE_HTTP_PORT\"]}/health/live', timeout=2)"]
CMD ["delaybridge", "serve"]
