# syntax=docker/dockerfile:1
FROM golang:1.27.3 AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /toolpark ./cmd/toolpark

# Alpine rather than nothing: its wget is the health check.
FROM alpine:3.22
COPY --from=build /toolpark /usr/local/bin/toolpark
USER nobody
EXPOSE 8080
ENTRYPOINT ["toolpark"]
