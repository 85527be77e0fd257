# profllm for laptops and CI servers: verify, rehearse, collect, report, compare.
#   podman build -t profllm .
#   podman run --rm -v "$PWD:/work" profllm rehearse
# On a cluster, use the program itself: docs/how-to/install.md.
ARG GO=docker.io/library/golang:1.26-bookworm
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${GO} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /profllm ./cmd/profllm

# A rehearsal runs the job's script, which needs bash and coreutils.
FROM ${BASE}
COPY --from=build /profllm /usr/local/bin/profllm
WORKDIR /work
ENTRYPOINT ["profllm"]
