# The sidecar's image, and (--target redirect) that of the containers beside it which change the kernel's packet filter.
# Any base with Python 3.11 or later does; both stages must have it at the same path. The digest is that of the index of all
# architectures; a base that is not this one is not built on without saying so by --build-arg.
ARG BASE_IMAGE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE_IMAGE} AS build
WORKDIR /src
COPY uv.requirements.txt ./
RUN python3 -m venv /opt/uv && \
    /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r uv.requirements.txt
# What is compiled carries no times, so that the same sources are the same image; nobody changes a source in it.
ENV UV_PROJECT_ENVIRONMENT=/opt/sidecar UV_PYTHON=python3 UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy \
    UV_SYSTEM_CERTS=1 UV_COMPILE_BYTECODE=1 UV_NO_CACHE=1 PYC_INVALIDATION_MODE=UNCHECKED_HASH PYTHONHASHSEED=0
# What it needs, as locked, in a layer of its own: it changes seldom. The extra `operator` lets `plan` and `verify` run
# from this image as well; the sidecar never imports it.
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN /opt/uv/bin/uv sync --frozen --no-dev --extra operator --no-install-project
COPY admission ./admission
COPY journal_schema ./journal_schema
COPY operating ./operating
COPY protocol ./protocol
COPY proxy ./proxy
COPY reassignment ./reassignment
# A wheel, not a link to /src: nothing of this stage is left but /opt/sidecar. When uv looked at the sources is the one thing
# that two builds of the same ones would differ in.
RUN /opt/uv/bin/uv sync --frozen --no-dev --extra operator --no-editable && \
    find /opt/sidecar -name uv_cache.json -delete && \
    find /opt/sidecar -name RECORD -exec sed -i '/\/uv_cache\.json,/d' {} +

FROM ${BASE_IMAGE} AS sidecar
ARG BASE_IMAGE
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kafka-throttle-sidecar" \
      org.opencontainers.image.description="Bounds Apache Kafka's replication traffic, live, in bytes per second" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
COPY --from=build /opt/sidecar /opt/sidecar
# The official images have no bytecode of Python's own library. Nobody could write it here, so that every start and every
# health check would compile what they load of it: more than half of their CPU. Tests, and what needs a screen, are left out.
RUN PYTHONHASHSEED=0 python3 -m compileall -q --invalidation-mode unchecked-hash \
    -x '/(tests?|idlelib|lib2to3|tkinter|turtledemo|site-packages|dist-packages)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
# Last good quotas and overrides, where a volume is mounted here (THROTTLE_QUOTAS__STATE): a new one belongs to this user; and
# control.sock, where a tmpfs is wanted if the root file system is read-only.
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/throttle-sidecar /run/kafka-throttle-sidecar
# The root file system may be read-only.
ENV PATH=/opt/sidecar/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /etc/throttle-sidecar
EXPOSE 9092 9404
# It handles SIGTERM itself, as PID 1: drains, then ends. `limits.drain` (10 s) is to be below the grace period.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["throttle-sidecar", "health"]
ENTRYPOINT ["throttle-sidecar"]
CMD ["run"]

# The sidecar's image and iptables: for what needs NET_ADMIN, which is redirect.sh as an init container, and the guard.
FROM sidecar AS redirect
ARG BASE_IMAGE
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kafka-throttle-sidecar redirect" \
      org.opencontainers.image.description="Leads a broker's connections to the sidecar beside it, or around it; needs NET_ADMIN" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
USER 0:0
RUN apt-get update -q && apt-get install -qy --no-install-recommends iptables && rm -rf /var/lib/apt/lists/* \
    /var/cache/apt/* /var/cache/ldconfig/aux-cache /var/log/apt /var/log/dpkg.log /var/log/alternatives.log
COPY deploy/redirect/redirect.sh /usr/local/bin/redirect.sh
ENTRYPOINT ["/usr/local/bin/redirect.sh"]
CMD ["add"]
HEALTHCHECK NONE

FROM sidecar
