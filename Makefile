# PlasmaCloud. `make help` lists what there is; what takes more than a few lines is a script in hack/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Settings, to be given on the command line or by the environment.
RELEASE  ?= $(CURDIR)/_output/release#  where the built release goes
DATA_DIR ?= /var/lib/plasmacloud#       what `make up` runs in
FLAGS    ?=#                            further flags of `cloud up` for `make up`

# A Go that is older than go.mod asks for fetches the right one.
export GOTOOLCHAIN ?= auto
export PLASMACLOUD_RELEASE := $(abspath $(RELEASE))

# The programs carry the version that git knows; a tree that git does not trust, or an unpacked archive, has none.
VCS     := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)
GOBUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=$(VCS) -ldflags='-s -w'
DISTRO  := go run ./cmd/distro
STEP    := hack/step.sh

# A folder below test/e2e or test/bench that holds Go tests is a target.
scenarios  = $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard test/$(1)/*/*_test.go)))))
SCENARIOS := $(filter-out lab,$(call scenarios,e2e))
BENCHES   := $(call scenarios,bench)
FIRST     := hosted
# What takes very long runs by name alone: stacks of all clouds, killed at many moments, and deployers without a platform.
BYNAME := byocdeployer byocstub
# The longest begin first, so that none is waited for alone in the end.
LONGEST := byocgcp selfhealing hostedfaults byocazure management kubeadmha scaleout byocaws
REST    := $(filter-out $(FIRST) $(BYNAME) $(LONGEST),$(SCENARIOS))

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[A-Za-z0-9$$()-]+:.*## / { sub(/\$$\(E2E\)/, "e2e-<scenario>", $$1); sub(/\$$\(BENCH\)/, "bench-<name>", $$1); printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nscenarios: %s\nbenchmarks: %s\n' '$(SCENARIOS)' '$(BENCHES)'

.PHONY: up
up: distro build ## Build everything and install the platform on this host, in DATA_DIR (default /var/lib/plasmacloud)
	@hack/up.sh $(PLASMACLOUD_RELEASE) $(DATA_DIR) $(FLAGS)

.PHONY: down
down: build ## Stop the platform and remove all of it, the data too
	$(RELEASE)/bin/cloud down --data-dir $(DATA_DIR) --purge --yes

##@ Build

.PHONY: packages
packages: ## Install the system packages that are missing
	@hack/packages.sh

.PHONY: distro
distro: packages ## Build the distribution from source into RELEASE: Kubernetes, runtime, images
	@$(STEP) distro $(DISTRO) build --output $(RELEASE)

.PHONY: distro-byoc
distro-byoc: ## Build what clusters in clouds need into RELEASE/byoc: OpenTofu and the providers of three clouds
	@$(STEP) distro-byoc $(DISTRO) build --cloud --output $(RELEASE)

.PHONY: distro-add
distro-add: ## Add a Kubernetes minor, or move one to another patch version: VERSION=v1.34.4
	@[ -n "$(VERSION)" ] || { echo "distro-add: say which, as in: make distro-add VERSION=v1.34.4" >&2; exit 1; }
	$(DISTRO) add $(VERSION)

.PHONY: build
build: distro ## Build our own programs into RELEASE/bin, and the images that they are in: cloudd's and the nodes'
	@mkdir -p $(RELEASE)/bin $(RELEASE)/images
	$(GOBUILD) -o $(RELEASE)/bin/ ./cmd/k8shost ./cmd/prismnet ./cmd/cloud ./cmd/cloudd
	@$(DISTRO) package --ref plasmacloud.io/cloudd:latest --file $(RELEASE)/images/cloudd.tar $(RELEASE)/bin/cloudd
	@$(DISTRO) node --output $(RELEASE)

.PHONY: generate
generate: ## Write what is generated: the API's deep copies and CRDs, the services' contracts, the reference of k8shost's flags
	$$(hack/tool.sh controller-gen) object crd paths=./api/... output:crd:dir=api/crd
	hack/proto.sh
	go test ./internal/k8shost/config -run Reference -count=1 -update

.PHONY: clean
clean: ## Remove what was built; the content cache stays
	rm -rf _output

##@ Check

.PHONY: test
test: packages distro build unit $(FIRST:%=e2e-%) ## Unit tests, house rules, and the scenario of the main job: hosted

.PHONY: test-all
test-all: packages distro build $(LONGEST:%=e2e-%) $(REST:%=e2e-%) ## Every other scenario

# Most packages wait more than they compute: twice as many at once.
.PHONY: unit
unit: ## Unit tests and house rules
	@$(STEP) unit go test -count=1 -timeout 15m -p $(shell echo $$(($$(nproc) * 2))) ./...

E2E := $(SCENARIOS:%=e2e-%)
.PHONY: $(E2E)
$(E2E): e2e-%: distro build ## Run one scenario on real nodes, as root
	@$(STEP) $@ go test -tags e2e -count=1 -timeout 30m -v ./test/e2e/$*

# Names of packages have no hyphens; those of scenarios may.
.PHONY: e2e-self-healing e2e-kubeadm-ha e2e-ssh-hosts e2e-byoc-aws e2e-byoc-gcp e2e-byoc-azure
e2e-byoc-aws: e2e-byocaws ## The scenario byocaws
e2e-byoc-gcp: e2e-byocgcp ## The scenario byocgcp
e2e-byoc-azure: e2e-byocazure ## The scenario byocazure
e2e-self-healing: e2e-selfhealing ## The scenario selfhealing
e2e-kubeadm-ha: e2e-kubeadmha ## The scenario kubeadmha
e2e-ssh-hosts: e2e-sshhosts ## The scenario sshhosts

# What is about clusters in clouds needs their part of the release too.
$(filter e2e-byoc%,$(E2E)) bench-byoc: distro-byoc

# Real accounts: what is made there costs money, so clouds are named. The platform is the one that `make up` has made.
.PHONY: byoc-live
byoc-live: ## Run the scenarios of clouds against real accounts, credentials from the environment: CLOUDS="aws gcp azure"
	@BYOC_LIVE_CLOUDS="$(CLOUDS)" DATA_DIR="$(DATA_DIR)" go test -tags live -count=1 -timeout 6h -v -run TestLive ./test/live

BENCH := $(BENCHES:%=bench-%)
.PHONY: $(BENCH)
$(BENCH): bench-%: distro build ## Measure, and print BENCH lines
	@go test -tags bench -count=1 -timeout 60m -v ./test/bench/$*

.PHONY: lint
lint: ## Run golangci-lint, built from source on first use
	@tool=$$(hack/tool.sh golangci-lint) && $(STEP) lint "$$tool" run --allow-serial-runners ./...

.PHONY: verify
verify: lint distro ## Lint, and check that formatting, generated files, modules and release are as they should be
	@$(STEP) verify hack/verify.sh $(RELEASE)
