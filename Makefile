# The project's commands. `make test` is what a newcomer runs.

GO       ?= go
PLATFORMS = linux/amd64 linux/arm64 darwin/arm64 windows/amd64
FUZZTIME ?= 5s

.PHONY: test check build vet lint race fuzz bench cost interop check-arm64 vm

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

# The driver, its assembly and the protocol as arm64 code, under qemu-user. Left out is
# what an emulated process cannot see: flags of its mappings, memory it may not write.
ARM64 = internal/mmio internal/ring internal/prm internal/uapi internal/rxeabi internal/roce internal/link internal/rc internal/ud \
        internal/pcap internal/ifc internal/pciconfig internal/perftest rdma/softnic/trace \
        rdma/mlx5 rdma/mlx5/region rdma/mlx5/cq rdma/mlx5/qp rdma/mlx5/srq rdma/mlx5/internal/device rdma/internal/ledger rdma/internal/nic \
        bootstrap listener
check-arm64:
	@set -e; for p in $(ARM64); do \
	  CGO_ENABLED=0 GOARCH=arm64 $(GO) test -timeout 5m -exec qemu-aarch64-static ./$$p; done

# Libraries that the module itself does not depend on, in a module of their own.
interop:
	cd interop && $(GO) vet ./... && $(GO) test -race ./...

# Tests on real kernels, in virtual machines: all of them, or make vm KERNELS=6.1.
KERNELS ?= all
vm:
	FARWIRE_TEST_VM=1 $(GO) test -count=1 -run TestMachine ./internal/vmtest
	$(GO) run ./internal/vmtest/vmrun -kernels $(KERNELS)

# The driver's tests on the kernel's own mlx5 driver, whose card is farwire vm-nic.
.PHONY: vm-mlx5
vm-mlx5:
	FARWIRE_VM_KERNELS=$(KERNELS) $(GO) test -count=1 -timeout 30m -run '^TestKernel' ./internal/connectx
	FARWIRE_VM_KERNELS=$(KERNELS) $(GO) test -count=1 -timeout 30m -run '^TestVMNIC(GuestsTalk|TwoCards)$$' ./cmd/farwire
	$(GO) run ./internal/vmtest/vmrun -nic ib -kernels $(KERNELS)
	$(GO) run ./internal/vmtest/vmrun -nic eth -kernels $(KERNELS)

# With which kernels' RoCE the software NIC was seen to work: the table of docs/wire.md.
.PHONY: interop-table
interop-table:
	$(GO) run ./internal/vmtest/vmrun -kernels $(KERNELS) -matrix -test '^TestKernel([^D]|Dial)' ./internal/wire ./cmd/farwire

# What bad networks leave of the throughput, as a table; make impairments UPDATE=1 writes the
# golden one anew.
.PHONY: impairments
impairments:
	$(GO) test -count=1 -v -run '^(TestImpairments|TestStoppedLink)$$' ./rdma -impairments.all $(if $(UPDATE),-impairments.update)

# Connections over Soft-RoCE beside perftest, rsockets and TCP, on the newest kernel.
.PHONY: vm-table
vm-table:
	$(GO) run ./internal/vmtest/vmrun -kernels newest -test '^TestCompareSoftRoCE$$' -v ./rdma

# Every fuzz target for a short while, on top of the seeds that `make test` runs. One that
# ends with "context deadline exceeded" and no failing input met the end of its own time,
# which Go at times takes for a failure (go.dev/issue/75804): it is run once more.
fuzz:
	@set -e; packages=$$($(GO) list ./...); for pkg in $$packages; do \
	  listed=$$($(GO) test -list '^Fuzz' "$$pkg") || { echo "$$listed"; exit 1; }; \
	  for f in $$(echo "$$listed" | grep '^Fuzz'); do \
	    fuzz="$(GO) test -run ^$$ -fuzz ^$$f$$ -fuzztime $(FUZZTIME) $$pkg"; \
	    echo "$$fuzz"; said=$$($$fuzz 2>&1) && { echo "$$said" | tail -n 1; continue; }; echo "$$said"; \
	    case "$$said" in *"Failing input"*) exit 1;; *"context deadline exceeded"*) $$fuzz;; *) exit 1;; esac; done; done

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# The driver's instructions and nanoseconds beside libmlx5's; needs libibverbs-dev.
cost:
	$(GO) run ./internal/cost

# Connections between two processes beside TCP and Unix sockets; -links and -profile by hand.
.PHONY: compare
compare:
	$(GO) run ./internal/compare

# Programs on rdma-core under farwire run; the table of docs/conformance.md.
.PHONY: conformance rdma-core
conformance: rdma-core
	$(GO) run ./internal/gates

RDMA_CORE = libibverbs1 ibverbs-providers libibverbs-dev ibverbs-utils perftest rdma-core python3-pyverbs
PYVERBS   = /usr/share/doc/rdma-core/tests
# Some systems leave documentation out when they install; the tests are some.
rdma-core:
	@dpkg-query --show $(RDMA_CORE) >/dev/null 2>&1 && [ -e $(PYVERBS) ] || { set -e; \
	  apt-get update -q; DEBIAN_FRONTEND=noninteractive apt-get install -q -y $(RDMA_CORE); \
	  [ -e $(PYVERBS) ] || { cd "$$(mktemp -d)"; apt-get download -q python3-pyverbs; dpkg-deb -x python3-pyverbs_*.deb .; \
	    mkdir -p $(dir $(PYVERBS)); cp -r .$(PYVERBS) $(PYVERBS); }; }

.PHONY: bench-once
bench-once:
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...
