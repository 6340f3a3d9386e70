# The project's commands. `make test` is what a newcomer runs.

GO       ?= go
PLATFORMS = linux/amd64 linux/arm64 darwin/arm64 windows/amd64
FUZZTIME ?= 5s

.PHONY: test check build vet lint race fuzz bench interop

test:
	$(GO) test ./...

check: build vet lint race interop fuzz bench-once

# No cgo anywhere; off Linux the device files are missing, the software NIC is there.
build:
	@set -e; for p in $(PLATFORMS); do echo "build $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build ./...; done

vet:
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	@set -e; for p in $(PLATFORMS); do echo "vet $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./...; done

lint:
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

race:
	$(GO) test -race -shuffle=on ./...

# Libraries that the module itself does not depend on, in a module of their own.
interop:
	cd interop && $(GO) vet ./... && $(GO) test -race ./...

# Every fuzz target for a short while, on top of the seeds that `make test` runs.
fuzz:
	@set -e; $(GO) list ./... | while read -r pkg; do \
	  $(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz' | while read -r f; do \
	    echo "fuzz $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null; done; done

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-once
bench-once:
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...
