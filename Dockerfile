# A tag can be moved to another image, a digest can't. Take the digest of the tag that you have tried, and build with it:
#   docker buildx imagetools inspect python:3.13.9-slim-bookworm --format '{{.Manifest.Digest}}'
#   docker build --build-arg PYTHON_IMAGE=python:3.13.9-slim-bookworm@sha256:… --tag delaybridge:0.1.0 .
ARG PYTHON_IMAGE=python:3.13.9-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
RUN python -m venv /opt/delaybridge
COPY deploy/requirements.lock deploy/requirements.lock
RUN /opt/delaybridge/bin/pip install --no-cache-dir --require-hashes --requirement deploy/requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY topology topology
COPY bridge bridge
RUN /opt/delaybridge/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title=delaybridge \
  org.opencontainers.image.description="Messages delivered later, on RabbitMQ" \
  org.opencontainers.image.licenses=Apache-2.0
# The ids are fixed, so that an orchestrator can check that they are not root's.
RUN groupadd --system --gid 10001 delaybridge && \
  useradd --system --uid 10001 --gid 10001 --no-create-home delaybridge
COPY --from=build /opt/delaybridge /opt/delaybridge
# pip has compiled all modules, and the bridge writes no file. So its root can be read-only.
ENV PATH=/opt/delaybridge/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
  BRIDGE_HTTP_HOST=0.0.0.0 BRIDGE_HTTP_PORT=8080
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"BRIDGE_HTTP_PORT\"]}/health/live', timeout=2)"]
CMD ["delaybridge", "serve"]
