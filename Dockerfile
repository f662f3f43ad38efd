# The sidecar alone: no lab, no Spark, no build tools in what is left.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /src
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check uv==0.13.8
ENV UV_PROJECT_ENVIRONMENT=/opt/sidecar UV_PYTHON=python3 UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_SYSTEM_CERTS=1
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-install-project
COPY admission ./admission
COPY journal_schema ./journal_schema
COPY pipeline ./pipeline
COPY protocol ./protocol
COPY proxy ./proxy
COPY reassignment ./reassignment
COPY lab ./lab
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-editable

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="kafka-throttle-sidecar" \
      org.opencontainers.image.description="Bounds Apache Kafka's replication traffic, live, in bytes per second" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/sidecar /opt/sidecar
ENV PATH=/opt/sidecar/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /etc/throttle-sidecar
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["throttle-sidecar", "status", "--once", "--json"]
ENTRYPOINT ["throttle-sidecar"]
CMD ["run", "--config", "/etc/throttle-sidecar/proxy.toml"]
