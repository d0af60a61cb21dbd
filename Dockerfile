# The image of kinesin: one static program, the certificates of public authorities and the licences, nothing
# else, not run by root. By default it serves, in a volume, and asks each call for a token of a file that has to be mounted:
# docs/start/install.md. `make dist` makes the same image without a daemon; a test compares the two. The program comes out the same for the same commit and version, and is that of
# `make build`; `make check/reproducible` shows it:
#   docker build --build-arg VERSION="$(git describe --tags --always)" --tag kinesin .
# and the image too, if times are the commit's:
#   SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) docker buildx build --output type=oci,rewrite-timestamp=true …

# Pinned by the digest of its index, for all platforms; a test refuses a tag alone, which can come to mean
# another image. For a newer Go change both: docker buildx imagetools inspect golang:1.26.8-bookworm
ARG GO_IMAGE=golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
# Of all files only these decide what is downloaded; go.sum decides that it is what it was.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOFLAGS=-mod=readonly \
    go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /kinesin ./cmd/kinesin

FROM scratch
LABEL org.opencontainers.image.title="kinesin" \
      org.opencontainers.image.description="A durable scheduler of delayed tasks" \
      org.opencontainers.image.source="https://github.com/kinesin-io/kinesin" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /src/THIRD_PARTY_LICENSES /licenses/
# A folder of Debian that is empty: a new volume gets the owner of what it is mounted on.
COPY --from=build --chown=65532:65532 /srv /var/lib/kinesin
COPY --from=build /kinesin /kinesin
# A number: Kubernetes refuses names under runAsNonRoot, and there is no /etc/passwd.
USER 65532:65532
EXPOSE 7070
VOLUME /var/lib/kinesin
ENTRYPOINT ["/kinesin"]
CMD ["serve", "--data", "/var/lib/kinesin", "--listen", ":7070", "--auth-token-file", "/run/secrets/kinesin-tokens"]
