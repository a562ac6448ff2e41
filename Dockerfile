# The image holds one file, the agent.
#
#   docker build -t registry.example.com/pointsman/kube-proxy:0.1.0 .

ARG RUST_VERSION=1.95

# Debian 12: glibc 2.36. From 2.34 on, a static binary resolves names through /etc/hosts and /etc/resolv.conf without
# loading anything at run time.
FROM rust:${RUST_VERSION}-bookworm AS build
WORKDIR /src
COPY . .
# Naming the target keeps crt-static away from build scripts and procedural macros, which cannot be static.
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
    && RUSTFLAGS="-C target-feature=+crt-static" \
       cargo build --release --locked -p pointsman-agent --target "$target" \
    && install -D "target/$target/release/kube-proxy" /out/usr/local/bin/kube-proxy

FROM scratch
COPY --from=build /out/ /
ENTRYPOINT ["/usr/local/bin/kube-proxy"]
