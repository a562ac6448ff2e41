# The image holds the agent, with its symbol names in a file beside it, licences and an SBOM. `make image` writes the same
# files without Docker, and both take them from scripts/image-root.
#
#   docker build -t registry.example.com/pointsman/kube-proxy:0.1.0 --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .
#   docker build --platform linux/arm64 ...     the same for another architecture

ARG RUST_VERSION=1.95

# Debian 12: glibc 2.36. From 2.34 on, a static binary resolves names through /etc/hosts and /etc/resolv.conf without
# loading anything at run time. Built on the machine's own platform for the one that is asked for: emulation would take
# hours.
FROM --platform=$BUILDPLATFORM rust:${RUST_VERSION}-bookworm AS build
ARG TARGETARCH
RUN case "$TARGETARCH-$(uname -m)" in \
        arm64-x86_64) cross="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;; \
        amd64-aarch64) cross="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;; \
        *) cross="" ;; \
    esac \
    && apt-get update && apt-get install -y --no-install-recommends gcc $cross
WORKDIR /src
COPY . .
# The time of the commit, which the context does not have; it is in the SBOM.
ARG SOURCE_DATE_EPOCH
RUN scripts/image-root "$TARGETARCH" /out

FROM scratch
COPY --from=build /out/program/ /
ENTRYPOINT ["/usr/local/bin/kube-proxy"]
